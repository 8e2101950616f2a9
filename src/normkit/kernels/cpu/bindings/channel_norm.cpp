// channel_layer_norm where positions lie side by side: tensors in, tensors out.
#include "planes.h"

namespace normkit {
namespace {

Norm norm_of(const PlanesOf& x, double eps, Flags flags) {
  return {x.B * x.R, x.C, true, flags.eps_place(), eps, false, x.C};
}

Tensor forward(const Tensor& x, const Maybe& weight, const Maybe& bias, int64_t axis, double eps,
               int64_t bits) {
  const Flags flags = {bits};
  const PlanesOf planes = planes_of(x, axis);
  const Dtype dtype = planes.planes.dtype;
  const Tensor y = empty(x.sizes(), dtype);
  if (planes.numel() == 0) return y;
  const Parameter gain(weight, planes.C, dtype, flags.zero_centred());
  const Parameter shift(bias, planes.C, dtype, false);
  table().channel_forward({norm_of(planes, eps, flags), {gain.data(), shift.data(), 1}, planes.B,
                           planes.R, planes.planes, y.mutable_data_ptr(), pool()});
  return y;
}

// `needed`: bit 0 dx, 1 dweight, 2 dbias.
std::tuple<Tensor, Tensor, Tensor> backward(const Tensor& dy, const Tensor& x, const Maybe& weight,
                                            const Maybe& bias, int64_t axis, double eps,
                                            int64_t bits, int64_t needed) {
  const Flags flags = {bits};
  const PlanesOf planes = planes_of(x, axis), dys = planes_like(dy, planes, axis);
  const Dtype dtype = planes.planes.dtype;
  const Tensor dx = needed & 1 ? empty(x.sizes(), dtype) : nothing(dtype);
  ParameterGradient dweight(weight, needed & 2), dbias(bias, needed & 4);
  if (planes.numel() > 0) {
    const Parameter gain(weight, planes.C, dtype, flags.zero_centred());
    table().channel_backward({norm_of(planes, eps, flags), {gain.data(), nullptr, 1}, planes.B,
                              planes.R, dys.planes, planes.planes,
                              needed & 1 ? dx.mutable_data_ptr() : nullptr, dweight.sums(),
                              dbias.sums(), pool()});
  }
  return {dx, dweight.result(), dbias.result()};
}

}  // namespace
}  // namespace normkit

STABLE_TORCH_LIBRARY_FRAGMENT(normkit_cpu, m) {
  m.def("channel_layer_norm(Tensor x, Tensor? weight, Tensor? bias, int channel_axis, float eps,"
        " int flags) -> Tensor");
  m.def("channel_layer_norm_backward(Tensor dy, Tensor x, Tensor? weight, Tensor? bias,"
        " int channel_axis, float eps, int flags, int needed) -> (Tensor, Tensor, Tensor)");
}

STABLE_TORCH_LIBRARY_IMPL(normkit_cpu, CPU, m) {
  m.impl("channel_layer_norm", TORCH_BOX(&normkit::forward));
  m.impl("channel_layer_norm_backward", TORCH_BOX(&normkit::backward));
}
