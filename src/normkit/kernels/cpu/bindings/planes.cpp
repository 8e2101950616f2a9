#include "planes.h"

namespace normkit {
namespace {

int64_t product(const int64_t* sizes, int64_t count) {
  int64_t size = 1;
  for (int64_t axis = 0; axis < count; ++axis) size *= sizes[axis];
  return size;
}

bool describe(const Tensor& t, int64_t axis, PlanesOf& to) {
  const int64_t* sizes = t.sizes().data();
  const int64_t* strides = t.strides().data();
  const int64_t after = t.dim() - axis - 1;
  to.B = product(sizes, axis);
  to.C = sizes[axis];
  to.R = product(sizes + axis + 1, after);
  int64_t size = 1, batch = 0, position = 1;
  const bool batches = merged(sizes, strides, axis, &size, &batch, 1) >= 0;
  const bool positions =
      merged(sizes + axis + 1, strides + axis + 1, after, &size, &position, 1) >= 0;
  to.planes = {t.const_data_ptr(), dtype_of(t), batch, strides[axis]};
  return batches && positions && position == 1;
}

}  // namespace

PlanesOf planes_of(const Tensor& t, int64_t axis) {
  PlanesOf found = {t, {}, 0, 0, 0};
  if (!describe(t, axis, found)) {
    found.owner = torch::stable::contiguous(t);
    describe(found.owner, axis, found);
  }
  return found;
}

PlanesOf planes_like(const Tensor& t, const PlanesOf& like, int64_t axis) {
  const PlanesOf found = planes_of(t, axis);
  STD_TORCH_CHECK(found.planes.dtype == like.planes.dtype && found.B == like.B &&
                      found.C == like.C && found.R == like.R,
                  "normkit: a gradient must have the shape and dtype of what it belongs to");
  return found;
}

}  // namespace normkit
