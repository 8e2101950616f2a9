// Rows whose squares the compute type cannot hold: in float64, scaled by a power of two.
//
// A norm keeps its value when x is scaled by s and eps with it (s^2 inside the root, s outside).
#pragma once
#include <cfloat>
#include <cmath>

#include "moments.h"

NORMKIT_BEGIN

// x_hat = ((x - offset) * scale - mean - rest) / by
struct Rescued {
  double offset, scale, mean, rest, by, pull;

  template <class T>
  double operator()(T x) const {
    return (((double(widened(x)) - offset) * scale - mean) - rest) / by;
  }
};

template <class T>
NORMKIT_ONCE double offset_of_constant(const T* x, int64_t N) {
  const double first = widened(x[0]);
  for (int64_t i = 1; i < N; ++i) {
    if (widened(x[i]) != widened(x[0])) return 0.0;
  }
  return std::isfinite(first) ? first : 0.0;
}

template <class T>
NORMKIT_ONCE double scale_of(const T* x, const Norm& norm, double offset) {
  double largest = norm.eps_place == EpsPlace::inside ? std::sqrt(norm.eps) : norm.eps;
  for (int64_t i = 0; i < norm.N; ++i) {
    largest = std::fmax(largest, std::fabs(double(widened(x[i])) - offset));
  }
  if (!(largest > 0) || std::isinf(largest)) return 1.0;
  const int exponent = std::ilogb(largest);
  return std::ldexp(1.0, exponent > 1000 ? -1000 : exponent < -1000 ? 1000 : -exponent);
}

template <bool Center, class T>
NORMKIT_ONCE Rescued rescue(const T* x, const Norm& norm) {
  Rescued r = {0, 1, 0, 0, 1, 1};
  const int64_t N = norm.measured;
  if (Center) r.offset = offset_of_constant(x, norm.N);
  r.scale = scale_of(x, norm, r.offset);
  const auto mean_of_rest = [&] {
    double sum = 0;
    for (int64_t i = 0; i < N; ++i) sum += r(x[i]);
    return sum / N;
  };
  if (Center) r.mean = mean_of_rest();
  if (Center) r.rest = mean_of_rest();
  double square = 0;
  for (int64_t i = 0; i < N; ++i) square += r(x[i]) * r(x[i]);
  const bool inside = norm.eps_place == EpsPlace::inside;
  const double eps = inside ? norm.eps * r.scale * r.scale : norm.eps * r.scale;
  const Divisor by = divisor(square / N, eps, norm.eps_place);
  // Where eps vanishes beside such a row, zeros still must not be divided by zero.
  r.by = by.value > 0 || norm.eps == 0 ? by.value : DBL_MIN;
  r.pull = by.pull;
  return r;
}

NORMKIT_END
