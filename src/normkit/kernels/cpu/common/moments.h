// Mean and spread of a row, and what they make of an element.
#pragma once
#include <cmath>

#include "norm.h"
#include "sums.h"

NORMKIT_BEGIN

// x_hat = (x - mean - rest) * inverse. The mean is rounded to C; `rest` is what that lost, taken
// from the differences, which are exact where the mean is far above the spread.
template <class C>
struct Moments {
  C mean, rest, inverse;
  double pull;    // how much the divisor moves with the spread: see reference.standardize_backward
  bool in_range;  // C could square the row; if not, see rescue.h
};

struct Divisor {
  double value, pull;
};

// A variance that is not a number stays one, so that the row is found to be out of range.
inline Divisor divisor(double variance, double eps, EpsPlace place) {
  if (place == EpsPlace::inside) return {std::sqrt(variance + eps), 1.0};
  const double spread = std::sqrt(variance);
  if (place == EpsPlace::clamp) return {spread <= eps ? eps : spread, spread >= eps ? 1.0 : 0.0};
  return {spread + eps, spread > 0 ? (spread + eps) / spread : 0.0};
}

// Squares of C are normal numbers in between, with room for the products that follow.
inline bool squares_well(double square, float) { return square >= 1e-30 && square <= 1e30; }
inline bool squares_well(double square, double) { return square >= 1e-280 && square <= 1e280; }

template <class C>
inline void finish(Moments<C>& m, const Norm& norm, double variance) {
  const Divisor by = divisor(variance, norm.eps, norm.eps_place);
  m.inverse = C(1.0 / by.value);
  m.pull = by.pull;
  // eps can hide a variance that is NaN, because a sum overflowed.
  m.in_range = std::isfinite(variance) && squares_well(by.value * by.value, C());
}

// `next` is the row that comes after x, or x itself: it is fetched while this one is worked on.
template <class C, bool Center, class T>
NORMKIT_ONCE Moments<C> moments(const T* x, const T* next, const Norm& norm, Helpers helpers) {
  const int64_t N = norm.measured;
  Moments<C> m = {};
  double sums[2] = {};
  if constexpr (Center) {
    double sum[1];
    row_sums<C, 1>(N, helpers, [=](Terms<C, 1>& to, int64_t i, auto n) {
      to.sum[0] = to.sum[0] + load<C>(x + i, n);
    }, sum);
    m.mean = C(sum[0] / N);
    const Vec<C> mean = Vec<C>::all(m.mean);
    row_sums<C, 2>(N, helpers, [=](Terms<C, 2>& to, int64_t i, auto n) {
      expect(next + i);
      const Vec<C> d = only(load<C>(x + i, n) - mean, n);
      to.sum[0] = to.sum[0] + d;
      to.sum[1] = fma(d, d, to.sum[1]);
    }, sums);
  } else {
    double square[1];
    row_sums<C, 1>(N, helpers, [=](Terms<C, 1>& to, int64_t i, auto n) {
      const Vec<C> value = load<C>(x + i, n);
      to.sum[0] = fma(value, value, to.sum[0]);
    }, square);
    sums[1] = square[0];
  }
  const double rest = sums[0] / N;
  m.rest = C(rest);
  const double variance = sums[1] / N - rest * rest;
  finish(m, norm, variance > 0 ? variance : variance == variance ? 0.0 : variance);
  return m;
}

// x_hat of the elements of a vector.
template <class C, bool Center>
struct Standardise {
  Vec<C> mean, rest, inverse;

  explicit Standardise(const Moments<C>& m)
      : mean(Vec<C>::all(m.mean)), rest(Vec<C>::all(m.rest)), inverse(Vec<C>::all(m.inverse)) {}

  Vec<C> operator()(Vec<C> x) const {
    if constexpr (Center) x = (x - mean) - rest;
    return x * inverse;
  }
};

// The value that T holds, in C again.
template <class C, class T>
inline Vec<C> rounded(Vec<C> value) {
  T narrow[Vec<C>::width];
  value.store(narrow);
  return Vec<C>::load(narrow);
}

NORMKIT_END
