#include "norm.h"

namespace normkit {

Parameter::Parameter(const Maybe& t, int64_t count, Dtype x_dtype, bool plus_one) {
  if (!t) return;
  const Dtype wanted = x_dtype == Dtype::float64 ? Dtype::float64 : Dtype::float32;
  const RowsOf found = rows_of(*t, t->dim());
  STD_TORCH_CHECK(wanted == Dtype::float64 || found.rows.dtype != Dtype::float64,
                  "normkit: a weight or bias is float64 beside a narrower x");
  STD_TORCH_CHECK(found.width == count, "normkit: a weight or bias has another size than x");
  owner_ = found.owner;
  data_ = found.rows.data;
  if (found.rows.dtype == wanted && found.rows.step == 1 && !plus_one) return;
  copy_.resize(count);  // of doubles: large enough for floats too
  table().widen(found.rows, count, plus_one, wanted, copy_.data());
  data_ = copy_.data();
}

ParameterGradient::ParameterGradient(const Maybe& t, bool needed)
    : needed_(needed && t.has_value()),
      result_(needed_ ? empty(t->sizes(), dtype_of(*t)) : nothing(Dtype::float32)),
      sums_(needed_ ? t->numel() : 0) {}

Tensor ParameterGradient::result() {
  if (needed_) {
    table().narrow(sums_.data(), int64_t(sums_.size()), dtype_of(result_),
                   result_.mutable_data_ptr());
  }
  return result_;
}

Forward forward_of(const RowsOf& x, const Norm& norm, const Affine& affine, const Tensor& y) {
  Forward call = {};
  call.norm = norm;
  call.affine = affine;
  call.x = x.rows;
  call.y = y.mutable_data_ptr();
  call.y_dtype = dtype_of(y);
  call.pool = pool();
  return call;
}

Backward backward_of(const RowsOf& dy, const RowsOf& x, const Norm& norm, const Affine& affine,
                     const Tensor& dx) {
  Backward call = {};
  call.norm = norm;
  call.affine = affine;
  call.dy = dy.rows;
  call.x = x.rows;
  call.dx = dx.numel() > 0 ? dx.mutable_data_ptr() : nullptr;
  call.dx_dtype = dtype_of(dx);
  call.pool = pool();
  return call;
}

Tensor nothing(Dtype dtype) {
  const int64_t none = 0;
  return empty({&none, 1}, dtype);
}

}  // namespace normkit
