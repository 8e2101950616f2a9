// adaptive_layer_norm and adaptive_rms_norm: gain and bias are 1 + scale and shift, whose rows
// each belong to consecutive rows of x, as many for each.
#include "norm.h"

namespace normkit {
namespace {

// How many rows of x one row of a scale belongs to; the shift must have as many rows as it.
void check_groups(const RowsOf& x, const RowsOf& scale, const Maybe& shift, int64_t axes) {
  const bool fits = scale.count > 0 && x.count % scale.count == 0 && scale.width == x.width;
  const RowsOf other = shift ? rows_of(*shift, axes) : scale;
  STD_TORCH_CHECK(fits && other.count == scale.count && other.width == x.width,
                  "normkit: the rows of a scale or shift do not go with those of x");
}

// Scale and shift as the kernels read them, and the tensors that hold them.
struct Modulated {
  RowsOf scale, shift;
  Modulation by = {};

  Modulated(const RowsOf& x, const Tensor& scale_tensor, const Maybe& shift_tensor, int64_t axes)
      : scale(rows_of(scale_tensor, axes)),
        shift(shift_tensor ? rows_of(*shift_tensor, axes) : RowsOf{}) {
    check_groups(x, scale, shift_tensor, axes);
    by.scale = scale.rows;
    by.shift = shift.rows;
  }
  Affine affine() const { return {nullptr, nullptr, scale.count, &by}; }
};

template <bool center>
Tensor forward(const Tensor& x, const Tensor& scale, const Maybe& shift, int64_t axes,
               double eps) {
  const RowsOf rows = rows_of(x, axes);
  const Modulated modulated(rows, scale, shift, axes);
  const Tensor y = empty(x.sizes(), rows.rows.dtype);
  const Norm norm = norm_of(rows, center, eps, Flags{0});
  table().norm_forward(forward_of(rows, norm, modulated.affine(), y));
  return y;
}

// A gradient of the shape of a scale or shift: in its dtype, or as wide as it is computed in.
Tensor gradient(bool needed, const Tensor& t, Dtype x_dtype, bool wide) {
  const Dtype compute = x_dtype == Dtype::float64 ? Dtype::float64 : Dtype::float32;
  return needed ? empty(t.sizes(), wide ? compute : dtype_of(t)) : nothing(Dtype::float32);
}

// `needed`: bit 0 dx, 1 dscale, 2 dshift; bits 4 and 5: dscale and dshift are to be wide.
template <bool center>
std::tuple<Tensor, Tensor, Tensor> backward(const Tensor& dy, const Tensor& x, const Tensor& scale,
                                            const Maybe& shift, int64_t axes, double eps,
                                            int64_t needed) {
  const RowsOf rows = rows_of(x, axes);
  const Dtype dtype = rows.rows.dtype;
  const RowsOf dy_rows = rows_like(dy, rows, axes, dtype);
  Modulated modulated(rows, scale, shift, axes);
  Modulation& by = modulated.by;
  const bool gives[3] = {bool(needed & 1), bool(needed & 2), shift && needed & 4};
  const Tensor dx = gives[0] ? empty(x.sizes(), dtype) : nothing(dtype);
  const Tensor dscale = gradient(gives[1], scale, dtype, needed & 16);
  const Tensor dshift = gradient(gives[2], shift ? *shift : scale, dtype, needed & 32);
  by.dscale = gives[1] ? dscale.mutable_data_ptr() : nullptr;
  by.dscale_dtype = dtype_of(dscale);
  by.dshift = gives[2] ? dshift.mutable_data_ptr() : nullptr;
  by.dshift_dtype = dtype_of(dshift);
  const Norm norm = norm_of(rows, center, eps, Flags{0});
  table().norm_backward(backward_of(dy_rows, rows, norm, modulated.affine(), dx));
  return {dx, dscale, dshift};
}

}  // namespace
}  // namespace normkit

#define NORMKIT_FORWARD "(Tensor x, Tensor scale, Tensor? shift, int axes, float eps) -> Tensor"
#define NORMKIT_BACKWARD                                                                \
  "_backward(Tensor dy, Tensor x, Tensor scale, Tensor? shift, int axes, float eps, int" \
  " needed) -> (Tensor, Tensor, Tensor)"

STABLE_TORCH_LIBRARY_FRAGMENT(normkit_cpu, m) {
  m.def("adaptive_layer_norm" NORMKIT_FORWARD);
  m.def("adaptive_rms_norm" NORMKIT_FORWARD);
  m.def("adaptive_layer_norm" NORMKIT_BACKWARD);
  m.def("adaptive_rms_norm" NORMKIT_BACKWARD);
}

STABLE_TORCH_LIBRARY_IMPL(normkit_cpu, CPU, m) {
  m.impl("adaptive_layer_norm", TORCH_BOX(&normkit::forward<true>));
  m.impl("adaptive_rms_norm", TORCH_BOX(&normkit::forward<false>));
  m.impl("adaptive_layer_norm_backward", TORCH_BOX(&normkit::backward<true>));
  m.impl("adaptive_rms_norm_backward", TORCH_BOX(&normkit::backward<false>));
}
