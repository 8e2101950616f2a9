// layer_norm and rms_norm: tensors in, tensors out.
#include "norm.h"

namespace normkit {
namespace {

template <bool center>
Tensor forward(const Tensor& x, const Maybe& weight, const Maybe& bias, int64_t axes, double eps,
               int64_t bits) {
  const Flags flags = {bits};
  const RowsOf rows = rows_of(x, axes);
  const Dtype dtype = rows.rows.dtype;
  const Tensor y = empty(x.sizes(), flags.float32_output() ? Dtype::float32 : dtype);
  if (rows.count == 0 || rows.width == 0) return y;
  const Parameter gain(weight, rows.width, dtype, flags.zero_centred());
  const Parameter shift(bias, rows.width, dtype, false);
  const Norm norm = norm_of(rows, center, eps, flags);
  table().norm_forward(forward_of(rows, norm, {gain.data(), shift.data(), 1}, y));
  return y;
}

// `needed`: bit 0 dx, 1 dweight, 2 dbias.
template <bool center>
std::tuple<Tensor, Tensor, Tensor> backward(const Tensor& dy, const Tensor& x, const Maybe& weight,
                                            const Maybe& bias, int64_t axes, double eps,
                                            int64_t bits, int64_t needed) {
  const Flags flags = {bits};
  const RowsOf rows = rows_of(x, axes);
  const Dtype dtype = rows.rows.dtype;
  const RowsOf dy_rows = rows_like(dy, rows, axes, flags.float32_output() ? Dtype::float32 : dtype);
  const Tensor dx = needed & 1 ? empty(x.sizes(), dtype) : nothing(dtype);
  ParameterGradient dweight(weight, needed & 2), dbias(bias, needed & 4);
  if (rows.count > 0 && rows.width > 0) {
    const Parameter gain(weight, rows.width, dtype, flags.zero_centred());
    const Norm norm = norm_of(rows, center, eps, flags);
    Backward call = backward_of(dy_rows, rows, norm, {gain.data(), nullptr, 1}, dx);
    call.dgain = dweight.sums();
    call.dbias = dbias.sums();
    table().norm_backward(call);
  }
  return {dx, dweight.result(), dbias.result()};
}

}  // namespace
}  // namespace normkit

STABLE_TORCH_LIBRARY_FRAGMENT(normkit_cpu, m) {
  m.def("layer_norm(Tensor x, Tensor? weight, Tensor? bias, int axes, float eps, int flags)"
        " -> Tensor");
  m.def("rms_norm(Tensor x, Tensor? weight, Tensor? bias, int axes, float eps, int flags)"
        " -> Tensor");
  m.def("layer_norm_backward(Tensor dy, Tensor x, Tensor? weight, Tensor? bias, int axes,"
        " float eps, int flags, int needed) -> (Tensor, Tensor, Tensor)");
  m.def("rms_norm_backward(Tensor dy, Tensor x, Tensor? weight, Tensor? bias, int axes,"
        " float eps, int flags, int needed) -> (Tensor, Tensor, Tensor)");
}

STABLE_TORCH_LIBRARY_IMPL(normkit_cpu, CPU, m) {
  m.impl("layer_norm", TORCH_BOX(&normkit::forward<true>));
  m.impl("rms_norm", TORCH_BOX(&normkit::forward<false>));
  m.impl("layer_norm_backward", TORCH_BOX(&normkit::backward<true>));
  m.impl("rms_norm_backward", TORCH_BOX(&normkit::backward<false>));
}
