#include "tensor.h"

namespace normkit {

Dtype dtype_of(const Tensor& t) {
  int32_t number = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(t.get(), &number));
  const Dtype dtype = Dtype(number);
  STD_TORCH_CHECK(dtype == Dtype::float32 || dtype == Dtype::float64 || is_half(dtype),
                  "normkit: a tensor has a dtype that the kernels do not know");
  return dtype;
}

Tensor empty(torch::headeronly::IntHeaderOnlyArrayRef sizes, Dtype dtype) {
  constexpr int64_t most = 64;
  STD_TORCH_CHECK(sizes.size() <= most, "normkit: a tensor has more than 64 axes");
  int64_t strides[most];
  int64_t stride = 1;
  for (int64_t axis = int64_t(sizes.size()) - 1; axis >= 0; --axis) {
    strides[axis] = stride;
    stride *= sizes[axis] > 1 ? sizes[axis] : 1;
  }
  AtenTensorHandle handle = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(
      int64_t(sizes.size()), sizes.data(), strides, int32_t(dtype), 0, 0, &handle));
  return Tensor(handle);
}

int merged(const int64_t* sizes, const int64_t* strides, int64_t count, int64_t* merged_sizes,
           int64_t* merged_strides, int most) {
  int left = 0;
  for (int64_t axis = 0; axis < count; ++axis) {
    if (sizes[axis] == 1) continue;
    const bool continues =
        left > 0 && merged_strides[left - 1] == sizes[axis] * strides[axis];
    if (continues) {
      merged_sizes[left - 1] *= sizes[axis];
      merged_strides[left - 1] = strides[axis];
    } else {
      if (left == most) return -1;
      merged_sizes[left] = sizes[axis];
      merged_strides[left++] = strides[axis];
    }
  }
  return left;
}

namespace {

bool describe(const Tensor& t, int64_t axes, RowsOf& to) {
  const int64_t before = t.dim() - axes;
  const int64_t* sizes = t.sizes().data();
  const int64_t* strides = t.strides().data();
  to.count = to.width = 1;
  for (int64_t axis = 0; axis < t.dim(); ++axis) {
    (axis < before ? to.count : to.width) *= sizes[axis];
  }
  Rows& rows = to.rows;
  rows.data = t.const_data_ptr();
  rows.dtype = dtype_of(t);
  int64_t size = 1;
  rows.step = 1;
  const int inner = merged(sizes + before, strides + before, axes, &size, &rows.step, 1);
  rows.axes = merged(sizes, strides, before, rows.sizes, rows.strides, kMostAxes);
  return inner >= 0 && rows.axes >= 0;
}

void run(int64_t begin, int64_t end, int64_t grain, Task task, void* context) {
  TORCH_ERROR_CODE_CHECK(torch_parallel_for(begin, end, grain, task, context));
}

}  // namespace

RowsOf rows_of(const Tensor& t, int64_t axes) {
  STD_TORCH_CHECK(axes <= t.dim(), "normkit: a tensor has fewer axes than are normalised");
  RowsOf found = {t, {}, 0, 0};
  if (!describe(t, axes, found)) {
    found.owner = torch::stable::contiguous(t);
    describe(found.owner, axes, found);
  }
  return found;
}

RowsOf rows_like(const Tensor& t, const RowsOf& like, int64_t axes, Dtype dtype) {
  const RowsOf found = rows_of(t, axes);
  STD_TORCH_CHECK(found.rows.dtype == dtype && found.count == like.count &&
                      found.width == like.width,
                  "normkit: a gradient must have the shape and dtype of what it belongs to");
  return found;
}

Pool pool() {
  uint32_t threads = 1;
  TORCH_ERROR_CODE_CHECK(torch_get_num_threads(&threads));
  return {run, int64_t(threads)};
}

}  // namespace normkit
