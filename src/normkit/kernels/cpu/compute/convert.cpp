// Parameters into the compute type, their gradients out of float64.
#include "table.h"

#include "../common/dispatch.h"
#include "../common/sums.h"

NORMKIT_BEGIN

template <class C, class T>
inline void widen_row(const Rows& row, int64_t count, bool plus_one, C* out) {
  const Scratch<T> packed(row.step == 1 ? 0 : count);
  const T* from = RowReader<T>{row, count, packed.data}(0);
  const Vec<C> one = Vec<C>::all(C(plus_one));
  vectors<C>(0, count, [=](int64_t i, auto n) {
    expect(from + count + i);  // most often the row that comes next
    store(out + i, load<C>(from + i, n) + one, n);
  });
}

NORMKIT_END

namespace normkit {
namespace NORMKIT_ISA {

void widen(const Rows& row, int64_t count, bool plus_one, Dtype to, void* out) {
  with_type(row.dtype, [&](auto type, auto) {
    using T = typename decltype(type)::type;
    if constexpr (sizeof(T) < 8) {
      if (to == Dtype::float32) {
        return widen_row<float, T>(row, count, plus_one, static_cast<float*>(out));
      }
    }
    if constexpr (sizeof(T) >= 4) {
      return widen_row<double, T>(row, count, plus_one, static_cast<double*>(out));
    }
    for (int64_t i = 0; i < count; ++i) {
      const T value = static_cast<const T*>(row.data)[i * row.step];
      static_cast<double*>(out)[i] = double(widened(value)) + double(plus_one);
    }
  });
}

void narrow(const double* values, int64_t count, Dtype to, void* out) {
  with_type(to, [&](auto type, auto) {
    using T = typename decltype(type)::type;
    for (int64_t i = 0; i < count; ++i) static_cast<T*>(out)[i] = narrowed<T>(values[i]);
  });
}

}  // namespace NORMKIT_ISA
}  // namespace normkit
