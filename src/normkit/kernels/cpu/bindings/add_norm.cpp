// add_layer_norm and add_rms_norm: h = dropout(x) + alpha * residual, and the norm of h.
#include "norm.h"

namespace normkit {
namespace {

Addition addition(double alpha, double dropout, int64_t seed) {
  Addition add = {};
  add.present = true;
  add.alpha = alpha;
  add.dropout = dropout;
  add.seed = uint64_t(seed);
  return add;
}

// Returns y; h is contiguous, in the dtype that x and the residual promote to, and is written.
template <bool center>
Tensor forward(const Tensor& x, const Tensor& residual, const Maybe& weight, const Maybe& bias,
               const Tensor& h, int64_t axes, double eps, int64_t bits, double alpha,
               double dropout, int64_t seed) {
  const Flags flags = {bits};
  const RowsOf rows = rows_of(x, axes), others = rows_of(residual, axes);
  STD_TORCH_CHECK(h.is_contiguous() && h.numel() == x.numel() && others.count == rows.count &&
                      others.width == rows.width,
                  "normkit: h and the residual must have the shape of x, h contiguous");
  const Dtype dtype = rows.rows.dtype, h_dtype = dtype_of(h);
  const Tensor y = empty(x.sizes(), dtype);
  if (rows.count == 0 || rows.width == 0) return y;
  const Parameter gain(weight, rows.width, h_dtype, flags.zero_centred());
  const Parameter shift(bias, rows.width, h_dtype, false);
  const Norm norm = norm_of(rows, center, eps, flags);
  Forward call = forward_of(rows, norm, {gain.data(), shift.data(), 1}, y);
  call.add = addition(alpha, dropout, seed);
  call.add.residual = others.rows;
  call.add.h = h.mutable_data_ptr();
  call.add.h_dtype = h_dtype;
  table().norm_forward(call);
  return y;
}

// (dx, dresidual, dweight, dbias), dresidual in the dtype of h. `needed`: bit 0 dx, 1 dresidual,
// 2 dweight, 3 dbias. dx and dresidual are one tensor where their values are the same.
template <bool center>
std::tuple<Tensor, Tensor, Tensor, Tensor> backward(
    const Tensor& dy, const Maybe& dh, const Tensor& h, const Maybe& weight, const Maybe& bias,
    int64_t axes, double eps, int64_t bits, double alpha, double dropout, int64_t seed,
    int64_t needed) {
  const Flags flags = {bits};
  const RowsOf rows = rows_of(h, axes);
  const Dtype dtype = dtype_of(dy), h_dtype = rows.rows.dtype;
  const RowsOf dy_rows = rows_like(dy, rows, axes, dtype);
  STD_TORCH_CHECK(dtype == h_dtype || (is_half(dtype) && h_dtype == Dtype::float32) ||
                      (is_half(h_dtype) && dtype == Dtype::float32),
                  "normkit: dy and h have dtypes that do not go together");
  const bool same = alpha == 1.0 && dropout == 0.0 && dtype == h_dtype;
  const Tensor dx = needed & 1 || (same && needed & 2) ? empty(h.sizes(), dtype) : nothing(dtype);
  const Tensor dresidual = same ? dx : needed & 2 ? empty(h.sizes(), h_dtype) : nothing(h_dtype);
  ParameterGradient dweight(weight, needed & 4), dbias(bias, needed & 8);
  if (rows.count > 0 && rows.width > 0) {
    const Parameter gain(weight, rows.width, h_dtype, flags.zero_centred());
    const RowsOf dh_rows = dh ? rows_like(*dh, rows, axes, h_dtype) : RowsOf{};
    const Norm norm = norm_of(rows, center, eps, flags);
    Backward call = backward_of(dy_rows, rows, norm, {gain.data(), nullptr, 1}, dx);
    call.add = addition(alpha, dropout, seed);
    call.dh = dh ? &dh_rows.rows : nullptr;
    call.dresidual = same || !(needed & 2) ? nullptr : dresidual.mutable_data_ptr();
    call.dresidual_dtype = h_dtype;
    call.dgain = dweight.sums();
    call.dbias = dbias.sums();
    table().norm_backward(call);
  }
  return {dx, dresidual, dweight.result(), dbias.result()};
}

}  // namespace
}  // namespace normkit

#define NORMKIT_FORWARD                                                                      \
  "(Tensor x, Tensor residual, Tensor? weight, Tensor? bias, Tensor(a!) h, int axes, float " \
  "eps, int flags, float alpha, float dropout, int seed) -> Tensor"
#define NORMKIT_BACKWARD                                                                      \
  "_backward(Tensor dy, Tensor? dh, Tensor h, Tensor? weight, Tensor? bias, int axes, float " \
  "eps, int flags, float alpha, float dropout, int seed, int needed) -> "                     \
  "(Tensor, Tensor, Tensor, Tensor)"

STABLE_TORCH_LIBRARY_FRAGMENT(normkit_cpu, m) {
  m.def("add_layer_norm" NORMKIT_FORWARD);
  m.def("add_rms_norm" NORMKIT_FORWARD);
  m.def("add_layer_norm" NORMKIT_BACKWARD);
  m.def("add_rms_norm" NORMKIT_BACKWARD);
}

STABLE_TORCH_LIBRARY_IMPL(normkit_cpu, CPU, m) {
  m.impl("add_layer_norm", TORCH_BOX(&normkit::forward<true>));
  m.impl("add_rms_norm", TORCH_BOX(&normkit::forward<false>));
  m.impl("add_layer_norm_backward", TORCH_BOX(&normkit::backward<true>));
  m.impl("add_rms_norm_backward", TORCH_BOX(&normkit::backward<false>));
}
