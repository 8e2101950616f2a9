// What a gate goes through, and the derivative of that: sigmoid(t) = 1 / (1 + e^-t), or
// silu(t) = t * sigmoid(t).
#pragma once
#include <cmath>

#include "sums.h"

NORMKIT_BEGIN

// e^t for |t| <= 80, to about one unit in the last place: t = n log(2) + r, e^t = 2^n e^r.
inline Vec<float> exponential(Vec<float> t) {
  const auto all = [](float value) { return Vec<float>::all(value); };
  const Vec<float> magic = all(0x1.8p23f);  // what is added to it is rounded to a whole number
  const Vec<float> shifted = fma(t, all(1.44269504f), magic);
  const Vec<float> n = shifted - magic;
  // log(2) in two parts; n times the first is exact.
  const Vec<float> r = fma(n, all(2.12194440e-4f), fma(n, all(-0.693359375f), t));
  Vec<float> p = all(1.9875691500e-4f);  // Cephes: (e^r - 1 - r) / r^2
  p = fma(p, r, all(1.3981999507e-3f));
  p = fma(p, r, all(8.3334519073e-3f));
  p = fma(p, r, all(4.1665795894e-2f));
  p = fma(p, r, all(1.6666665459e-1f));
  p = fma(p, r, all(5.0000001201e-1f));
  return fma(p * r, r, r + all(1.0f)) * power_of_two(shifted);
}

struct Activated {
  double value, slope;
};

// One number, over the whole range of float64.
inline Activated activated(double t, bool sigmoid) {
  const double s = 1 / (1 + std::exp(-t)), rest = 1 / (1 + std::exp(t));
  if (sigmoid) return {s, s * rest};
  return {t * s, s * (1 + t * rest)};
}

// Writes a(gate), and the slope unless that is null. False where it cannot in C: see gated.h.
NORMKIT_ONCE inline bool activate(const double* gate, double* value, double* slope, int64_t N,
                                  bool sigmoid) {
  for (int64_t i = 0; i < N; ++i) {
    const Activated a = activated(gate[i], sigmoid);
    value[i] = a.value;
    if (slope != nullptr) slope[i] = a.slope;
  }
  return true;
}

// Where a or the slope would fall below float, false: a huge number could stand beside it.
NORMKIT_ONCE inline bool activate(const float* gate, float* value, float* slope, int64_t N,
                                  bool sigmoid) {
  const Vec<float> one = Vec<float>::all(1), low = Vec<float>::all(-80),
                   high = Vec<float>::all(80);
  Vec<float> least = Vec<float>::all(0), most = least;
  vectors<float>(0, N, [&](int64_t i, auto n) {
    expect(gate + N + i);  // what comes next
    const Vec<float> t = load<float>(gate + i, n);
    least = smaller(t, least);
    most = larger(t, most);
    const Vec<float> near = larger(low, smaller(high, t));
    const Vec<float> e = exponential(Vec<float>::all(0) - near);
    const Vec<float> s = one / (one + e);
    store(value + i, sigmoid ? s : t * s, n);
    if (slope == nullptr) return;
    const Vec<float> rest = e * s;
    store(slope + i, sigmoid ? rest * s : fma(near * rest, s, s), n);
  });
  float ends[2 * Vec<float>::width];
  least.store(ends);
  (Vec<float>::all(0) - most).store(ends + Vec<float>::width);
  for (int j = 0; j < Vec<float>::width; ++j) {
    if (ends[j] < -80) return false;
    if (sigmoid && slope != nullptr && ends[Vec<float>::width + j] < -80) return false;
  }
  return true;
}

NORMKIT_END
