// From dtypes at run time to types at compile time.
#pragma once
#include <cstdlib>

#include "dtype.h"

NORMKIT_BEGIN

template <class T>
struct Type {
  using type = T;
};

// Call body(Type<T>, C) for the type T of memory, C the type that it is computed in.
template <class Body>
inline void with_type(Dtype dtype, const Body& body) {
  switch (dtype) {
    case Dtype::float32: return body(Type<float>{}, float());
    case Dtype::float64: return body(Type<double>{}, double());
    case Dtype::float16: return body(Type<Half>{}, float());
    case Dtype::bfloat16: return body(Type<BFloat16>{}, float());
  }
  std::abort();  // the bindings let no other through
}

// Call body(Type<A>, Type<B>, C) for two dtypes that may meet: the same, or one of them float.
template <class Body>
inline void with_types(Dtype a, Dtype b, const Body& body) {
  with_type(a, [&](auto first, auto compute) {
    if (a == b) return body(first, first, compute);
    if constexpr (sizeof(compute) == sizeof(float)) {
      if (b == Dtype::float32) return body(first, Type<float>{}, compute);
      if (a == Dtype::float32 && b == Dtype::float16) return body(first, Type<Half>{}, compute);
      if (a == Dtype::float32 && b == Dtype::bfloat16) {
        return body(first, Type<BFloat16>{}, compute);
      }
    }
    std::abort();
  });
}

NORMKIT_END
