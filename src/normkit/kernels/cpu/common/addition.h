// h = dropout(x) + alpha * residual, and the way back: dx = dropout(total), alpha * total.
#pragma once
#include "norm.h"
#include "philox.h"
#include "sums.h"

NORMKIT_BEGIN

template <class C, class X, class R, class H>
inline void add_row(const Addition& add, const X* x, const R* residual, H* h, int64_t first,
                    int64_t N) {
  const Vec<C> alpha = Vec<C>::all(C(add.alpha));
  const Dropout<C> dropout(add.dropout, add.seed);
  vectors<C>(0, N, [=](int64_t i, auto n) {
    Vec<C> value = load<C>(x + i, n);
    if (dropout.active) value = value * dropout(first + i);
    store(h + i, fma(alpha, load<C>(residual + i, n), value), n);
  });
}

template <class C, class X, class R>
inline void split_row(const Addition& add, const C* total, X* dx, R* dresidual, int64_t first,
                      int64_t N) {
  const Vec<C> alpha = Vec<C>::all(C(add.alpha));
  const Dropout<C> dropout(add.dropout, add.seed);
  vectors<C>(0, N, [=](int64_t i, auto n) {
    const Vec<C> value = load<C>(total + i, n);
    if (dresidual != nullptr) store(dresidual + i, value * alpha, n);
    if (dx != nullptr) store(dx + i, dropout.active ? value * dropout(first + i) : value, n);
  });
}

NORMKIT_END
