// A row forward: its moments, then y = x_hat * gain + bias.
#pragma once
#include "rescue.h"

NORMKIT_BEGIN

template <class C>
struct Gain {
  const C* gain;
  const C* bias;
};

// The gain and bias of row m.
template <class C>
inline Gain<C> gain_of(const Affine& affine, const Norm& norm, int64_t m) {
  const int64_t group = affine.groups > 1 ? m / (norm.M / affine.groups) : 0;
  const auto part = [&](const void* p) {
    return p == nullptr ? nullptr : static_cast<const C*>(p) + group * norm.N;
  };
  return {part(affine.gain), part(affine.bias)};
}

template <class C, bool Center, class T, class Y>
NORMKIT_ONCE void rescued_forward(const T* x, Y* y, Gain<C> by, const Norm& norm) {
  const Rescued r = rescue<Center>(x, norm);
  for (int64_t i = 0; i < norm.N; ++i) {
    double value = r(x[i]);
    if (norm.round_before_gain) value = widened(narrowed<T>(value));
    if (by.gain != nullptr) value *= by.gain[i];
    if (by.bias != nullptr) value += by.bias[i];
    y[i] = narrowed<Y>(value);
  }
}

template <class C, bool Center, class T, class Y>
inline void forward_row(const T* x, const T* next, Y* y, Gain<C> by, const Norm& norm,
                        Helpers helpers) {
  const Moments<C> m = moments<C, Center>(x, next, norm, helpers);
  if (!m.in_range) return rescued_forward<C, Center>(x, y, by, norm);
  const Standardise<C, Center> standardise(m);
  const bool round = norm.round_before_gain;
  over_chunks(norm.N, helpers, [=](int64_t begin, int64_t end) {
    vectors<C>(begin, end, [=](int64_t i, auto n) {
      if constexpr (!Center) expect(next + i);
      Vec<C> value = standardise(load<C>(x + i, n));
      if (round) value = rounded<C, T>(value);
      if (by.gain != nullptr) value = value * load<C>(by.gain + i, n);
      if (by.bias != nullptr) value = value + load<C>(by.bias + i, n);
      store(y + i, value, n);
    });
  });
}

NORMKIT_END
