// Rows in the compute type: read from any dtype and strides, written to any dtype.
#pragma once
#include "table.h"

#include "../common/dispatch.h"
#include "../common/sums.h"

NORMKIT_BEGIN

template <class C>
constexpr Dtype kCompute = sizeof(C) == sizeof(double) ? Dtype::float64 : Dtype::float32;

inline int64_t bytes_of(Dtype dtype) {
  return dtype == Dtype::float64 ? 8 : dtype == Dtype::float32 ? 4 : 2;
}

// Row m alone.
inline Rows only_row(const Rows& rows, int64_t m) {
  int64_t offset = 0;
  for (int axis = rows.axes - 1; axis >= 0; --axis) {
    offset += (axis > 0 ? m % rows.sizes[axis] : m) * rows.strides[axis];
    m /= rows.sizes[axis];
  }
  const char* data = static_cast<const char*>(rows.data) + offset * bytes_of(rows.dtype);
  return {data, rows.dtype, 0, {}, {}, rows.step};
}

// Hands out rows of `width`: in place, or widened into memory that the next one takes.
template <class C>
struct WideRows {
  const Rows& rows;
  const int64_t width;
  const bool in_place = rows.dtype == kCompute<C> && rows.step == 1;
  const Scratch<C> memory{in_place ? 0 : width};

  WideRows(const Rows& rows, int64_t width) : rows(rows), width(width) {}

  const C* operator()(int64_t m) const {
    const Rows row = only_row(rows, m);
    if (in_place) return static_cast<const C*>(row.data);
    widen(row, width, false, kCompute<C>, memory.data);
    return memory.data;
  }
};

// Write row m of contiguous rows.
template <class C>
NORMKIT_ONCE void write_row(const C* values, int64_t width, int64_t m, void* out, Dtype dtype) {
  with_type(dtype, [&](auto type, auto compute) {
    using T = typename decltype(type)::type;
    T* to = static_cast<T*>(out) + m * width;
    if constexpr (sizeof(compute) == sizeof(C) || sizeof(T) == sizeof(float)) {
      vectors<C>(0, width, [=](int64_t i, auto n) { store(to + i, load<C>(values + i, n), n); });
    } else {
      for (int64_t i = 0; i < width; ++i) to[i] = narrowed<T>(values[i]);
    }
  });
}

NORMKIT_END
