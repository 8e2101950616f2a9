// h = dropout(x) + alpha * residual, and the way back: dx = dropout(total), alpha * total.
//
// Which dtypes meet is found out once a row: these loops are few, and not worth a copy for each
// norm.
#pragma once
#include "dispatch.h"
#include "philox.h"
#include "sums.h"
#include "norm.h"

NORMKIT_BEGIN

template <class C, class X, class R, class H>
NORMKIT_ONCE void add_row(const Addition& add, const X* x, const R* residual, H* h, int64_t first,
                          int64_t N) {
  const Vec<C> alpha = Vec<C>::all(C(add.alpha));
  const Dropout<C> dropout(add.dropout, add.seed);
  vectors<C>(0, N, [=](int64_t i, auto n) {
    // One term at a time is added to the other unrounded: neither may overflow where h does not.
    const Vec<C> value = load<C>(x + i, n), other = load<C>(residual + i, n);
    const Vec<C> h_i = dropout.active ? fma(value, dropout(first + i), alpha * other)
                                      : fma(alpha, other, value);
    store(h + i, h_i, n);
  });
}

template <class C, class X, class R>
NORMKIT_ONCE void split_row(const Addition& add, const C* total, X* dx, R* dresidual,
                            int64_t first, int64_t N) {
  const Vec<C> alpha = Vec<C>::all(C(add.alpha));
  const Dropout<C> dropout(add.dropout, add.seed);
  vectors<C>(0, N, [=](int64_t i, auto n) {
    const Vec<C> value = load<C>(total + i, n);
    if (dresidual != nullptr) store(dresidual + i, value * alpha, n);
    if (dx != nullptr) store(dx + i, dropout.active ? value * dropout(first + i) : value, n);
  });
}

// The dtype that two promote to, given that they are the same or one of them is float.
template <class X, class R>
struct Promoted {
  using type = float;
};
template <class X>
struct Promoted<X, X> {
  using type = X;
};

// Row m of dx and of dresidual from the gradient of h.
template <class C>
NORMKIT_ONCE void write_parts(const Backward& call, int64_t m, const C* total) {
  with_types(call.dx_dtype, call.dresidual_dtype, [&](auto x_type, auto r_type, auto compute) {
    using X = typename decltype(x_type)::type;
    using R = typename decltype(r_type)::type;
    if constexpr (sizeof(compute) == sizeof(C)) {
      const int64_t N = call.norm.N, first = m * N;
      X* dx = call.dx == nullptr ? nullptr : static_cast<X*>(call.dx) + first;
      R* dr = call.dresidual == nullptr ? nullptr : static_cast<R*>(call.dresidual) + first;
      split_row<C>(call.add, total, dx, dr, first, N);
    }
  });
}

NORMKIT_END
