// A row backward: dx = (g - mean(g) - x_hat * mean(g * x_hat) * pull) * inverse, g = dy * gain.
//
// Nothing but x was kept; the moments are taken again while the row lies in the cache.
#pragma once
#include "forward.h"

NORMKIT_BEGIN

// Where a row adds its share of the gradients of gain and bias; null where nobody asks.
template <class C>
struct Shares {
  C* gain;
  C* bias;
};

// What is subtracted from g: (mean + x_hat * slope), elements that were not measured excepted.
template <class C>
struct Pull {
  C mean, slope;
};

template <class C, bool Center, class T, class Y>
NORMKIT_ONCE void rescued_backward(const T* x, const Y* dy, const T* dh, T* dx, C* total,
                                   Gain<C> by, Shares<C> shares, const Norm& norm) {
  const Rescued r = rescue<Center>(x, norm);
  const auto g = [&](int64_t i) {
    return double(widened(dy[i])) * (by.gain == nullptr ? 1.0 : double(by.gain[i]));
  };
  double mean = 0, slope = 0;
  for (int64_t i = 0; i < norm.N; ++i) {
    const double x_hat = r(x[i]);
    const double kept = norm.round_before_gain ? double(widened(narrowed<T>(x_hat))) : x_hat;
    mean += g(i);
    slope += g(i) * x_hat;
    if (shares.gain != nullptr) shares.gain[i] += C(widened(dy[i]) * kept);
    if (shares.bias != nullptr) shares.bias[i] += C(widened(dy[i]));
  }
  mean = Center ? mean / norm.measured : 0;
  slope = slope / norm.measured * r.pull;
  for (int64_t i = 0; i < norm.N; ++i) {
    const double pull = i < norm.measured ? mean + r(x[i]) * slope : 0;
    double value = (g(i) - pull) / r.by * r.scale;
    if (dh != nullptr) value += widened(dh[i]);
    if (total != nullptr) total[i] = C(value);
    if (dx != nullptr) dx[i] = narrowed<T>(value);
  }
}

// The sums over a row: mean(g) and the slope; adds the row's shares on the way.
template <class C, bool Center, class T, class Y>
inline Pull<C> pull_of(const T* x, const Y* dy, const Moments<C>& m, Gain<C> by, Shares<C> shares,
                       const Norm& norm, Helpers helpers) {
  const Standardise<C, Center> standardise(m);
  const bool round = norm.round_before_gain;
  double sums[2];
  row_sums<C, 2>(norm.N, helpers, [=](Terms<C, 2>& to, int64_t i, auto n) {
    // Beyond a tail x counts as 0: standardised it can be infinite, and 0 * infinity would be NaN.
    const Vec<C> x_hat = only(standardise(load<C>(x + i, n)), n);
    Vec<C> g = load<C>(dy + i, n);
    if (shares.gain != nullptr) {
      const Vec<C> kept = round ? rounded<C, T>(x_hat) : x_hat;
      store(shares.gain + i, fma(g, kept, load<C>(shares.gain + i, n)), n);
    }
    if (shares.bias != nullptr) store(shares.bias + i, g + load<C>(shares.bias + i, n), n);
    if (by.gain != nullptr) g = g * load<C>(by.gain + i, n);
    to.sum[0] = fma(g, x_hat, to.sum[0]);
    if (Center) to.sum[1] = to.sum[1] + g;
  }, sums);
  return {Center ? C(sums[1] / norm.measured) : C(0), C(sums[0] / norm.measured * m.pull)};
}

// The gradient of a row goes to dx; to `total` in C where it is worked on further.
template <class C, bool Center, class T, class Y>
inline void backward_row(const T* x, const T* next, const Y* dy, const Y* next_dy, const T* dh,
                         T* dx, C* total, Gain<C> by, Shares<C> shares, const Norm& norm,
                         Helpers helpers) {
  const Moments<C> m = moments<C, Center>(x, next, norm, helpers);
  Pull<C> pull = {};
  if (m.in_range) pull = pull_of<C, Center>(x, dy, m, by, shares, norm, helpers);
  if (!m.in_range) {
    return rescued_backward<C, Center>(x, dy, dh, dx, total, by, shares, norm);
  }
  if (dx == nullptr && total == nullptr) return;
  const Standardise<C, Center> standardise(m);
  const Vec<C> mean = Vec<C>::all(pull.mean), inverse = Vec<C>::all(m.inverse);
  const auto part = [=](int64_t from, int64_t to, Vec<C> slope) {
    vectors<C>(from, to, [=](int64_t i, auto n) {
      if constexpr (!Center) expect(next + i);
      expect(next_dy + i);
      Vec<C> g = load<C>(dy + i, n);
      if (by.gain != nullptr) g = g * load<C>(by.gain + i, n);
      const Vec<C> x_hat = standardise(load<C>(x + i, n));
      if (Center) g = g - mean;
      Vec<C> value = (g - x_hat * slope) * inverse;
      if (dh != nullptr) value = value + load<C>(dh + i, n);
      if (dx != nullptr) store(dx + i, value, n);
      if (total != nullptr) store(total + i, value, n);
    });
  };
  over_chunks(norm.N, helpers, [=](int64_t begin, int64_t end) {
    const int64_t measured = norm.measured < begin ? begin : smaller(end, norm.measured);
    part(begin, measured, Vec<C>::all(pull.slope));
    part(measured, end, Vec<C>::all(0));
  });
}

NORMKIT_END
