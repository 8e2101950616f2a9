// A group of features that a gate goes over: forward and backward of one row, all in C.
//
// Rows that C cannot hold are done in float64, one number at a time, and where float64 cannot hold
// x * a(gate) either, x is scaled by a power of two.
#pragma once
#include "backward.h"
#include "dispatch.h"
#include "gate.h"

NORMKIT_BEGIN

// What is normalised, in float64, and how: `of` an element that was scaled by 2^-shift.
struct RescuedGate {
  const Scratch<double> u;
  int shift = 0;
  Rescued of = {};

  template <class C>
  RescuedGate(const C* x, const C* gate, const Gating& by, const Norm& norm);
};

template <class C>
inline int exponent_of_largest(const C* values, int64_t N) {
  double largest = 0;
  for (int64_t i = 0; i < N; ++i) largest = std::fmax(largest, std::fabs(double(values[i])));
  return largest > 0 && std::isfinite(largest) ? std::ilogb(largest) : 0;
}

template <class C>
NORMKIT_ONCE RescuedGate::RescuedGate(const C* x, const C* gate, const Gating& by,
                                      const Norm& norm)
    : u(norm.N) {
  const int64_t N = norm.N;
  for (int64_t i = 0; i < N; ++i) u.data[i] = activated(gate[i], by.sigmoid).value;
  if (by.before) {
    const int above = exponent_of_largest(x, N) + exponent_of_largest(u.data, N) - 500;
    shift = above > 0 ? above : 0;
  }
  for (int64_t i = 0; i < N; ++i) {
    u.data[i] = by.before ? std::ldexp(x[i], -shift) * u.data[i] : x[i];
  }
  Norm scaled = norm;
  scaled.eps = std::ldexp(norm.eps, -2 * shift);
  if (norm.eps > 0) scaled.eps = std::fmax(scaled.eps, DBL_MIN);  // see rescue.h
  of = rescue<false>(u.data, scaled);
}

// What a narrower dtype holds of a number.
inline double held(double value, Dtype dtype) {
  if (dtype == Dtype::float16) return widened(narrowed<Half>(value));
  if (dtype == Dtype::bfloat16) return widened(narrowed<BFloat16>(value));
  return dtype == Dtype::float32 ? float(value) : value;
}

inline void round_row(double*, int64_t, Dtype) {}
NORMKIT_ONCE inline void round_row(float* values, int64_t N, Dtype dtype) {
  with_type(dtype, [&](auto type, auto) {
    using T = typename decltype(type)::type;
    if constexpr (sizeof(T) < sizeof(float)) {
      vectors<float>(0, N, [=](int64_t i, auto n) {
        store(values + i, rounded<float, T>(load<float>(values + i, n)), n);
      });
    }
  });
}

// How a gated row is computed: the norm of its group, its gate, the dtype of x.
struct GatedNorm {
  const Norm& norm;
  const Gating& gating;
  Dtype dtype;

  bool rounds_gained() const { return gating.round_gained && !gating.before; }
};

// x_hat * gain + bias of an element, with its roundings.
template <class C>
inline double gained_of(double value, Gain<C> by, const GatedNorm& how, int64_t i) {
  if (how.norm.round_before_gain) value = held(value, how.dtype);
  if (by.gain != nullptr) value *= by.gain[i];
  if (by.bias != nullptr) value += by.bias[i];
  return how.rounds_gained() ? held(value, how.dtype) : value;
}

template <class C>
NORMKIT_ONCE void rescued_gated_forward(const C* x, const C* gate, C* y, Gain<C> by,
                                        const GatedNorm& how) {
  const RescuedGate row(x, gate, how.gating, how.norm);
  for (int64_t i = 0; i < how.norm.N; ++i) {
    const double value = gained_of<C>(row.of(row.u.data[i]), by, how, i);
    const bool before = how.gating.before;
    y[i] = C(before ? value : value * activated(gate[i], how.gating.sigmoid).value);
  }
}

// Inputs of a row backward, and its outputs, null where nobody asks.
template <class C>
struct GatedRow {
  const C *x, *gate, *dy;
  C *dx, *dgate;
};

template <class C>
NORMKIT_ONCE void rescued_gated_backward(const GatedRow<C>& row, Gain<C> by, Shares<C> shares,
                                         const GatedNorm& how) {
  const Norm& norm = how.norm;
  const bool before = how.gating.before;
  const RescuedGate u(row.x, row.gate, how.gating, norm);
  const auto gate = [&](int64_t i) { return activated(row.gate[i], how.gating.sigmoid); };
  const auto d = [&](int64_t i) { return row.dy[i] * (before ? 1.0 : gate(i).value); };
  const auto g = [&](int64_t i) { return d(i) * (by.gain == nullptr ? 1.0 : by.gain[i]); };
  double slope = 0;
  for (int64_t i = 0; i < norm.N; ++i) {
    const double x_hat = u.of(u.u.data[i]);
    const double kept = norm.round_before_gain ? held(x_hat, how.dtype) : x_hat;
    slope += g(i) * x_hat;
    if (shares.gain != nullptr) shares.gain[i] += C(d(i) * kept);
    if (shares.bias != nullptr) shares.bias[i] += C(d(i));
  }
  slope = slope / norm.N * u.of.pull;
  for (int64_t i = 0; i < norm.N; ++i) {
    const double x_hat = u.of(u.u.data[i]);
    const double du = (g(i) - x_hat * slope) / u.of.by * u.of.scale;
    const double dx = before ? std::ldexp(du * gate(i).value, -u.shift) : du;
    const double through = before ? du * std::ldexp(row.x[i], -u.shift)
                                  : row.dy[i] * gained_of<C>(x_hat, by, how, i);
    if (row.dx != nullptr) row.dx[i] = C(dx);
    if (row.dgate != nullptr) row.dgate[i] = C(through * gate(i).slope);
  }
}

template <class C>
NORMKIT_ONCE void multiply(const C* a, const C* b, C* to, int64_t N) {
  vectors<C>(0, N, [=](int64_t i, auto n) {
    store(to + i, load<C>(a + i, n) * load<C>(b + i, n), n);
  });
}

template <class C>
NORMKIT_ONCE void multiply(const C* a, Vec<C> b, C* to, int64_t N) {
  vectors<C>(0, N, [=](int64_t i, auto n) { store(to + i, load<C>(a + i, n) * b, n); });
}

// `a` is memory for a(gate).
template <class C>
NORMKIT_ONCE void gated_forward_row(const C* x, const C* gate, C* y, C* a, Gain<C> by,
                                    const GatedNorm& how) {
  const int64_t N = how.norm.N;
  const bool fits = activate(gate, a, static_cast<C*>(nullptr), N, how.gating.sigmoid);
  if (how.gating.before) multiply(x, a, a, N);
  const C* u = how.gating.before ? a : x;
  const Moments<C> m = moments<C, false>(u, u, how.norm, nullptr);
  if (!fits || !m.in_range) return rescued_gated_forward(x, gate, y, by, how);
  Vec<C> inverse = Vec<C>::all(m.inverse);
  if (how.norm.round_before_gain) {
    multiply(u, inverse, y, N);
    round_row(y, N, how.dtype);
    u = y;
    inverse = Vec<C>::all(1);
  }
  const bool gates = !how.gating.before && !how.gating.round_gained;
  vectors<C>(0, N, [=](int64_t i, auto n) {
    expect(x + N + i);
    Vec<C> value = load<C>(u + i, n) * inverse;
    if (by.gain != nullptr) value = value * load<C>(by.gain + i, n);
    if (by.bias != nullptr) value = value + load<C>(by.bias + i, n);
    store(y + i, gates ? value * load<C>(a + i, n) : value, n);
  });
  if (!how.rounds_gained()) return;
  round_row(y, N, how.dtype);
  multiply(y, a, y, N);
}

// Memory for a row backward: a(gate), its slope, u = x * a or d = dy * a, and x_hat rounded.
template <class C>
struct GatedMemory {
  C *a, *slope, *product, *kept;
};

// dx and dgate, and the gained value that dgate needs, which may have to be rounded on the way.
template <class C>
NORMKIT_ONCE void gated_gradients(const GatedRow<C>& row, const GatedMemory<C>& memory, Gain<C> by,
                                  const GatedNorm& how, Vec<C> inverse, Vec<C> pull) {
  const bool before = how.gating.before, rounds = how.rounds_gained();
  const C *u = before ? memory.product : row.x, *d = before ? row.dy : memory.product;
  const C *kept = memory.kept, *other = before ? row.x : row.dy;
  const int64_t N = how.norm.N;
  vectors<C>(0, N, [=](int64_t i, auto n) {
    expect(row.x + N + i);
    expect(row.dy + N + i);
    const Vec<C> x_hat = load<C>(u + i, n) * inverse;
    Vec<C> g = load<C>(d + i, n);
    if (by.gain != nullptr) g = g * load<C>(by.gain + i, n);
    const Vec<C> du = (g - x_hat * pull) * inverse;
    if (row.dx != nullptr) store(row.dx + i, before ? du * load<C>(memory.a + i, n) : du, n);
    if (row.dgate == nullptr) return;
    Vec<C> from = du;
    if (!before) {
      from = kept == nullptr ? x_hat : load<C>(kept + i, n);
      if (by.gain != nullptr) from = from * load<C>(by.gain + i, n);
      if (by.bias != nullptr) from = from + load<C>(by.bias + i, n);
    }
    if (!rounds) from = from * load<C>(memory.slope + i, n) * load<C>(other + i, n);
    store(row.dgate + i, from, n);
  });
  if (row.dgate == nullptr || !rounds) return;
  round_row(row.dgate, N, how.dtype);
  multiply(row.dgate, memory.slope, row.dgate, N);
  multiply(row.dgate, row.dy, row.dgate, N);
}

template <class C>
NORMKIT_ONCE void gated_backward_row(const GatedRow<C>& row, GatedMemory<C> memory, Gain<C> by,
                                     Shares<C> shares, const GatedNorm& how) {
  const int64_t N = how.norm.N;
  const bool before = how.gating.before;
  const bool fits = activate(row.gate, memory.a, memory.slope, N, how.gating.sigmoid);
  multiply(before ? row.x : row.dy, memory.a, memory.product, N);
  const C *u = before ? memory.product : row.x, *d = before ? row.dy : memory.product;
  const Moments<C> m = moments<C, false>(u, u, how.norm, nullptr);
  if (!fits || !m.in_range) return rescued_gated_backward(row, by, shares, how);
  const Vec<C> inverse = Vec<C>::all(m.inverse);
  if (how.norm.round_before_gain) {
    multiply(u, inverse, memory.kept, N);
    round_row(memory.kept, N, how.dtype);
  } else {
    memory.kept = nullptr;
  }
  const C* kept = memory.kept;
  double sum[1];
  row_sums<C, 1>(N, nullptr, [=](Terms<C, 1>& to, int64_t i, auto n) {
    const Vec<C> x_hat = load<C>(u + i, n) * inverse;
    Vec<C> g = load<C>(d + i, n);
    if (shares.gain != nullptr) {
      const Vec<C> by_gain = kept == nullptr ? x_hat : load<C>(kept + i, n);
      store(shares.gain + i, fma(g, by_gain, load<C>(shares.gain + i, n)), n);
    }
    if (shares.bias != nullptr) store(shares.bias + i, g + load<C>(shares.bias + i, n), n);
    if (by.gain != nullptr) g = g * load<C>(by.gain + i, n);
    to.sum[0] = fma(g, x_hat, to.sum[0]);
  }, sum);
  gated_gradients(row, memory, by, how, inverse, Vec<C>::all(C(sum[0] / N * m.pull)));
}

NORMKIT_END
