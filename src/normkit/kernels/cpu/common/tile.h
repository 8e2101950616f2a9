// Tiles for norms over channels: some positions of one sample, all channels, in the compute type.
//
// A tile is cut into slabs of kLanes positions; a slab holds its channels one after the other, so
// that a lane is a position and the sums over channels need no transpose. How many slabs a tile
// has is decided by the number of channels alone.
#pragma once
#include "planes.h"
#include "rescue.h"

NORMKIT_BEGIN

constexpr int64_t kTileBytes = 65536;
constexpr int64_t kMostSlabs = 8;
constexpr int64_t kSerial = 16;  // channels that are added in C, before float64

template <class C>
inline int64_t slabs_of(int64_t channels) {
  const int64_t fit = kTileBytes / (channels * kLanes<C> * int64_t(sizeof(C)));
  return fit < 1 ? 1 : smaller(fit, kMostSlabs);
}

// Where a tile lies: `count` positions from `first` on, of sample b.
struct Place {
  int64_t b, first, count;
};

struct Tiling {
  int64_t width, per_sample, count;

  Tiling(int64_t slabs, int lanes, int64_t B, int64_t R)
      : width(slabs * lanes), per_sample((R + width - 1) / width), count(B * per_sample) {}

  Place operator()(int64_t t, int64_t R) const {
    const int64_t first = t % per_sample * width;
    return {t / per_sample, first, smaller(width, R - first)};
  }
};

// The first element of a place, channel 0.
template <class T>
inline const T* at(const Planes& planes, const Place& place) {
  return static_cast<const T*>(planes.data) + place.b * planes.batch + place.first;
}

// Ask for the memory of kLanes elements, see expect.
template <class T>
inline void expect_lanes(const T* address) {
  constexpr int lanes = 128 / (sizeof(T) < 8 ? 4 : 8);
  for (int i = 0; i < lanes; i += 64 / int(sizeof(T))) expect(address + i);
}

// Copy a tile together; lanes beyond `count` hold 0.
template <class C, class T>
inline void pack(const T* from, int64_t stride, int64_t channels, int64_t count, C* tile) {
  constexpr int lanes = kLanes<C>, width = Vec<C>::width;
  for (int64_t c = 0; c < channels; ++c, from += stride) {
    C* to = tile + c * lanes;
    int64_t i = 0;
    for (; i + lanes <= count; i += lanes, to += channels * lanes) {
#pragma GCC unroll 8
      for (int a = 0; a < lanes; a += width) store(to + a, load<C>(from + i + a, Full{}), Full{});
    }
    if (i == count) continue;
    for (int a = 0; a < lanes; a += width) store(to + a, Vec<C>::all(0), Full{});
    const T* rest = from + i;
    vectors<C>(0, count - i,
               [=](int64_t j, auto n) { store(to + j, load<C>(rest + j, n), Full{}); });
  }
}

// K sums over the channels of a slab, for each lane: add(terms, c, i) adds the vector at lane i of
// channel c.
template <class C, int K, class Add>
inline void slab_sums(int64_t channels, const Add& add, double (&sums)[K][kLanes<C>]) {
  constexpr int width = Vec<C>::width, count = kVectors<C>;
  std::memset(sums, 0, sizeof sums);
  for (int64_t first = 0; first < channels; first += kSerial) {
    Terms<C, K> lanes[count];
#pragma GCC unroll 8
    for (auto& terms : lanes) {
      for (auto& sum : terms.sum) sum = Vec<C>::all(0);
    }
    const int64_t end = smaller(channels, first + kSerial);
    for (int64_t c = first; c < end; ++c) {
#pragma GCC unroll 8
      for (int a = 0; a < count; ++a) add(lanes[a], c, a * width);
    }
    C part[K][kLanes<C>];
#pragma GCC unroll 8
    for (int a = 0; a < count; ++a) {
      for (int k = 0; k < K; ++k) store(part[k] + a * width, lanes[a].sum[k], Full{});
    }
    for (int k = 0; k < K; ++k) {
      for (int i = 0; i < kLanes<C>; i += Vec<double>::width) {
        double* sum = sums[k] + i;
        store(sum, load<double>(sum, Full{}) + load<double>(part[k] + i, Full{}), Full{});
      }
    }
  }
}

// Moments (moments.h) of the lanes of a slab; lanes that C could not square, or that are none, hold
// 0 as inverse.
template <class C>
struct SlabMoments {
  C mean[kLanes<C>], rest[kLanes<C>], inverse[kLanes<C>];
  double pull[kLanes<C>];
  bool in_range[kLanes<C>];
  bool all_in_range;

  Vec<C> x_hat(Vec<C> x, int i) const {
    const Vec<C> d = (x - load<C>(mean + i, Full{})) - load<C>(rest + i, Full{});
    return d * load<C>(inverse + i, Full{});
  }
};

template <class C>
inline void finish_lanes(SlabMoments<C>& m, const double (&sums)[2][kLanes<C>], const Norm& norm,
                         int64_t count) {
  constexpr int lanes = kLanes<C>;
  double by[lanes];
  const double over = 1.0 / norm.N;
  for (int i = 0; i < lanes; ++i) {
    const double rest = sums[0][i] * over;
    m.rest[i] = C(rest);
    const double variance = sums[1][i] * over - rest * rest;
    by[i] = variance < 0 ? 0.0 : variance;
  }
  if (norm.eps_place == EpsPlace::inside) {
    for (int i = 0; i < lanes; ++i) by[i] = std::sqrt(by[i] + norm.eps);
    for (int i = 0; i < lanes; ++i) m.pull[i] = 1.0;
  } else {
    for (int i = 0; i < lanes; ++i) {
      const Divisor d = divisor(by[i], norm.eps, norm.eps_place);
      by[i] = d.value;
      m.pull[i] = d.pull;
    }
  }
  for (int i = 0; i < lanes; ++i) m.inverse[i] = C(1.0 / by[i]);
  m.all_in_range = true;
  for (int i = 0; i < lanes; ++i) {
    m.in_range[i] = i >= count || squares_well(by[i] * by[i], C());
    m.all_in_range = m.all_in_range && m.in_range[i];
  }
  if (m.all_in_range && count >= lanes) return;
  for (int i = 0; i < lanes; ++i) {
    if (i >= count || !m.in_range[i]) m.inverse[i] = 0;
  }
}

// The moments of a slab, of which `count` lanes are positions.
template <class C>
inline void slab_moments(const C* slab, const Norm& norm, int64_t count, SlabMoments<C>& m) {
  constexpr int lanes = kLanes<C>;
  double sum[1][lanes], sums[2][lanes];
  slab_sums<C, 1>(norm.N, [=](Terms<C, 1>& to, int64_t c, int i) {
    to.sum[0] = to.sum[0] + load<C>(slab + c * lanes + i, Full{});
  }, sum);
  const double over = 1.0 / norm.N;
  for (int i = 0; i < lanes; ++i) m.mean[i] = C(sum[0][i] * over);
  const C* mean = m.mean;
  slab_sums<C, 2>(norm.N, [=](Terms<C, 2>& to, int64_t c, int i) {
    const Vec<C> d = load<C>(slab + c * lanes + i, Full{}) - load<C>(mean + i, Full{});
    to.sum[0] = to.sum[0] + d;
    to.sum[1] = fma(d, d, to.sum[1]);
  }, sums);
  finish_lanes(m, sums, norm, count);
}

// The channels of one position side by side, and back.
template <class T>
inline void gather(const T* from, int64_t stride, int64_t channels, T* to) {
  for (int64_t c = 0; c < channels; ++c) to[c] = from[c * stride];
}

template <class T>
inline void scatter(const T* from, int64_t channels, T* to, int64_t stride) {
  for (int64_t c = 0; c < channels; ++c) to[c * stride] = from[c];
}

NORMKIT_END
