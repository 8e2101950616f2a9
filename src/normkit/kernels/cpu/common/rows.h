// The rows of a tensor: where each begins, whatever the strides.
#pragma once
#include "dtype.h"

namespace normkit {

constexpr int kMostAxes = 6;

// Rows of elements that lie `step` apart; the axes before count rows in row-major order.
struct Rows {
  const void* data;
  Dtype dtype;
  int axes;
  int64_t sizes[kMostAxes];
  int64_t strides[kMostAxes];
  int64_t step;
};

}  // namespace normkit

#ifdef NORMKIT_ISA
NORMKIT_BEGIN

// Hands out rows whose elements lie side by side: in place, or copied together into `packed`.
template <class T>
struct RowReader {
  const Rows& rows;
  int64_t width;
  T* packed;  // `width` elements, used where step is not 1

  // Row m + 1 where it can be read in place, else row m: something to fetch ahead.
  const T* after(int64_t m, const T* row) const {
    return rows.step == 1 && rows.axes == 1 && m + 1 < rows.sizes[0] ? row + rows.strides[0] : row;
  }

  const T* operator()(int64_t m) const {
    int64_t offset = 0;
    for (int axis = rows.axes - 1; axis > 0; --axis) {
      offset += m % rows.sizes[axis] * rows.strides[axis];
      m /= rows.sizes[axis];
    }
    if (rows.axes > 0) offset += m * rows.strides[0];
    const T* row = static_cast<const T*>(rows.data) + offset;
    if (rows.step == 1) return row;
    for (int64_t i = 0; i < width; ++i) packed[i] = row[i * rows.step];
    return packed;
  }
};

NORMKIT_END
#endif
