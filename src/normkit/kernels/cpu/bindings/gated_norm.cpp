// gated_rms_norm: a gate of the shape of x, perhaps expanded, after the norm or before it.
#include "norm.h"

namespace normkit {
namespace {

// The options of a gate as one number (ops/gated_rms_norm.py): bit 0 it comes before the norm,
// 1 it goes through the sigmoid, 2 the gained value is rounded; from bit 8 on how many groups.
Gating gating_of(const RowsOf& gate, int64_t bits) {
  Gating gating = {};
  gating.gate = gate.rows;
  gating.before = bits & 1;
  gating.sigmoid = bits & 2;
  gating.round_gained = bits & 4;
  gating.groups = bits >> 8;
  return gating;
}

void check(const RowsOf& x, const RowsOf& gate, int64_t groups) {
  STD_TORCH_CHECK(gate.count == x.count && gate.width == x.width,
                  "normkit: a gate must have the shape of x");
  STD_TORCH_CHECK(groups > 0 && x.width % groups == 0,
                  "normkit: the features of x cannot be divided into these groups");
}

Tensor forward(const Tensor& x, const Tensor& gate, const Maybe& weight, const Maybe& bias,
               int64_t axes, double eps, int64_t bits, int64_t gate_bits) {
  const Flags flags = {bits};
  const RowsOf rows = rows_of(x, axes), gates = rows_of(gate, axes);
  const Gating gating = gating_of(gates, gate_bits);
  check(rows, gates, gating.groups);
  const Dtype dtype = rows.rows.dtype;
  const Tensor y = empty(x.sizes(), dtype);
  if (rows.count == 0 || rows.width == 0) return y;
  const Parameter gain(weight, rows.width, dtype, flags.zero_centred());
  const Parameter shift(bias, rows.width, dtype, false);
  const Norm norm = norm_of(rows, false, eps, flags);
  Forward call = forward_of(rows, norm, {gain.data(), shift.data(), 1}, y);
  call.gating = &gating;
  table().gated_forward(call);
  return y;
}

// (dx, dgate, dweight, dbias). `needed`: bit 0 dx, 1 dgate, 2 dweight, 3 dbias; bit 4: dgate is
// handed out as wide as it is computed in.
std::tuple<Tensor, Tensor, Tensor, Tensor> backward(
    const Tensor& dy, const Tensor& x, const Tensor& gate, const Maybe& weight, const Maybe& bias,
    int64_t axes, double eps, int64_t bits, int64_t gate_bits, int64_t needed) {
  const Flags flags = {bits};
  const RowsOf rows = rows_of(x, axes), gates = rows_of(gate, axes);
  const RowsOf dy_rows = rows_like(dy, rows, axes, rows.rows.dtype);
  Gating gating = gating_of(gates, gate_bits);
  check(rows, gates, gating.groups);
  const Dtype dtype = rows.rows.dtype;
  const Dtype compute = dtype == Dtype::float64 ? Dtype::float64 : Dtype::float32;
  gating.dgate_dtype = needed & 16 ? compute : dtype_of(gate);
  const Tensor dx = needed & 1 ? empty(x.sizes(), dtype) : nothing(dtype);
  const Tensor dgate =
      needed & 2 ? empty(x.sizes(), gating.dgate_dtype) : nothing(gating.dgate_dtype);
  ParameterGradient dweight(weight, needed & 4), dbias(bias, needed & 8);
  if (rows.count > 0 && rows.width > 0) {
    gating.dgate = needed & 2 ? dgate.mutable_data_ptr() : nullptr;
    const Parameter gain(weight, rows.width, dtype, flags.zero_centred());
    const Parameter shift(bias, rows.width, dtype, false);
    const Norm norm = norm_of(rows, false, eps, flags);
    Backward call = backward_of(dy_rows, rows, norm, {gain.data(), shift.data(), 1}, dx);
    call.dgain = dweight.sums();
    call.dbias = dbias.sums();
    call.gating = &gating;
    table().gated_backward(call);
  }
  return {dx, dgate, dweight.result(), dbias.result()};
}

}  // namespace
}  // namespace normkit

STABLE_TORCH_LIBRARY_FRAGMENT(normkit_cpu, m) {
  m.def("gated_rms_norm(Tensor x, Tensor gate, Tensor? weight, Tensor? bias, int axes, float eps,"
        " int flags, int gating) -> Tensor");
  m.def("gated_rms_norm_backward(Tensor dy, Tensor x, Tensor gate, Tensor? weight, Tensor? bias,"
        " int axes, float eps, int flags, int gating, int needed) -> (Tensor, Tensor, Tensor,"
        " Tensor)");
}

STABLE_TORCH_LIBRARY_IMPL(normkit_cpu, CPU, m) {
  m.impl("gated_rms_norm", TORCH_BOX(&normkit::forward));
  m.impl("gated_rms_norm_backward", TORCH_BOX(&normkit::backward));
}
