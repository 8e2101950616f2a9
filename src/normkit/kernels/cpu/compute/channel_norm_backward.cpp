// LayerNorm over channels, backward: tiles of positions, see tile.h.
//
// The gradients of gain and bias: over the positions of a tile in C, lanes and tiles in float64,
// four tiles in a group, groups in order; threads change nothing.
#include "table.h"

#include "../common/backward.h"
#include "../common/dispatch.h"
#include "../common/tile.h"

NORMKIT_BEGIN

constexpr int64_t kTiles = 4;  // in a group

// What dx of a lane needs beside x_hat and g.
template <class C>
struct SlabPull {
  C mean[kLanes<C>], slope[kLanes<C>], inverse[kLanes<C>];
};

// One thread's work: tiles, and the memory that they need.
template <class C, class T>
struct Worker {
  static constexpr int lanes = kLanes<C>;
  const ChannelBackward& call;
  const Tiling& tiling;
  const int64_t channels = call.norm.N;
  const C* const gain = static_cast<const C*>(call.affine.gain);
  Scratch<C> x{tiling.width * channels}, dy{tiling.width * channels};
  Scratch<SlabPull<C>> pulls{kMostSlabs};

  Worker(const ChannelBackward& call, const Tiling& tiling) : call(call), tiling(tiling) {}

  // The tiles [begin, end); their shares of dgain and dbias are added to sums, (2, C).
  NORMKIT_ONCE void tiles(int64_t begin, int64_t end, double* sums) const {
    for (int64_t t = begin; t < end; ++t) {
      const Place place = tiling(t, call.R);
      pack(at<T>(call.x, place), call.x.channel, channels, place.count, x.data);
      pack(at<T>(call.dy, place), call.dy.channel, channels, place.count, dy.data);
      bool in_range[kMostSlabs * lanes];
      bool all_in_range = true;
      for (int64_t s = 0; s * lanes < place.count; ++s) {
        SlabMoments<C> m;
        one_slab(s, place.count - s * lanes, m);
        std::memcpy(in_range + s * lanes, m.in_range, sizeof m.in_range);
        all_in_range = all_in_range && m.all_in_range;
      }
      const Place after = tiling(t + 1 < tiling.count ? t + 1 : t, call.R);
      if (call.dx == nullptr) {
        write<false>(place, after, sums);
      } else {
        write<true>(place, after, sums);
      }
      if (!all_in_range) rescued(place, in_range, sums);
    }
  }

  // Puts x_hat in the place of x, and finds what is to be subtracted from g.
  void one_slab(int64_t s, int64_t count, SlabMoments<C>& m) const {
    C* const x_hat = x.data + s * lanes * channels;
    C* const dys = dy.data + s * lanes * channels;
    slab_moments(x_hat, call.norm, count, m);
    if (!m.all_in_range) clear_lanes(x_hat, dys, m);
    double sums[2][lanes];
    const C* const by = gain;
    slab_sums<C, 2>(channels, [=, &m](Terms<C, 2>& to, int64_t c, int i) {
      const Vec<C> value = m.x_hat(load<C>(x_hat + c * lanes + i, Full{}), i);
      store(x_hat + c * lanes + i, value, Full{});
      Vec<C> g = load<C>(dys + c * lanes + i, Full{});
      if (by != nullptr) g = g * Vec<C>::all(by[c]);
      to.sum[0] = to.sum[0] + g;
      to.sum[1] = fma(g, value, to.sum[1]);
    }, sums);
    SlabPull<C>& pull = pulls.data[s];
    const double over = 1.0 / channels;
    for (int i = 0; i < lanes; ++i) pull.mean[i] = C(sums[0][i] * over);
    for (int i = 0; i < lanes; ++i) pull.slope[i] = C(sums[1][i] * over * m.pull[i]);
    std::memcpy(pull.inverse, m.inverse, sizeof m.inverse);
  }

  // Lanes that are rescued later add nothing here.
  NORMKIT_ONCE void clear_lanes(C* x_hat, C* dys, SlabMoments<C>& m) const {
    for (int i = 0; i < lanes; ++i) {
      if (m.in_range[i]) continue;
      m.mean[i] = m.rest[i] = 0;
      for (int64_t c = 0; c < channels; ++c) x_hat[c * lanes + i] = dys[c * lanes + i] = 0;
    }
  }

  T* dx_at(const Place& place) const {
    return static_cast<T*>(call.dx) + place.b * channels * call.R + place.first;
  }

  // dx of a tile, and its shares; the tile after it is fetched meanwhile.
  template <bool Dx>
  void write(const Place& place, const Place& after, double* sums) const {
    const T* next_x = at<T>(call.x, after);
    const T* next_dy = at<T>(call.dy, after);
    T* dx = Dx ? dx_at(place) : nullptr;
    for (int64_t c = 0; c < channels; ++c, dx += Dx ? call.R : 0) {
      const Vec<C> by = Vec<C>::all(gain == nullptr ? C(1) : gain[c]);
      const C* const x_hats = x.data + c * lanes;
      const C* const dys = dy.data + c * lanes;
      const auto step = [&](Terms<C, 2>& to, int64_t s, int i, auto n) {
        const int64_t offset = s * lanes * channels + i;
        const Vec<C> x_hat = load<C>(x_hats + offset, Full{}), d = load<C>(dys + offset, Full{});
        to.sum[0] = fma(d, x_hat, to.sum[0]);
        to.sum[1] = to.sum[1] + d;
        if constexpr (Dx) {
          const SlabPull<C>& pull = pulls.data[s];
          const Vec<C> g = d * by - load<C>(pull.mean + i, Full{});
          const Vec<C> value = g - x_hat * load<C>(pull.slope + i, Full{});
          store(dx + s * lanes + i, value * load<C>(pull.inverse + i, Full{}), n);
        }
      };
      for (int64_t i = 0; i < place.count; i += 64 / int64_t(sizeof(T))) {
        expect(next_x + c * call.x.channel + i);
        expect(next_dy + c * call.dy.channel + i);
      }
      add_shares(place.count, step, sums + c);
    }
  }

  template <class Step>
  void add_shares(int64_t count, const Step& step, double* sums) const {
    constexpr int width = Vec<C>::width;
    Terms<C, 2> terms[kVectors<C>];
#pragma GCC unroll 8
    for (auto& t : terms) t.sum[0] = t.sum[1] = Vec<C>::all(0);
    int64_t s = 0;
    for (; (s + 1) * lanes <= count; ++s) {
#pragma GCC unroll 8
      for (int a = 0; a < kVectors<C>; ++a) step(terms[a], s, a * width, Full{});
    }
    vectors<C>(0, count - s * lanes,
               [&](int64_t i, auto n) { step(terms[i / width], s, int(i), n); });
    if (sums == nullptr) return;
    for (int k = 0; k < 2; ++k) {
      double total = 0;
#pragma GCC unroll 8
      for (int half = kVectors<C> / 2; half > 0; half /= 2) {
#pragma GCC unroll 8
        for (int a = 0; a < half; ++a) {
          terms[a].sum[k] = terms[a].sum[k] + terms[a + half].sum[k];
        }
      }
      total = terms[0].sum[k].total();
      sums[k * channels] += total;
    }
  }

  NORMKIT_ONCE void rescued(const Place& place, const bool* in_range, double* sums) const {
    const Scratch<T> xs(channels), dys(channels), dxs(channels);
    const Scratch<C> shares(2 * channels);
    std::memset(shares.data, 0, 2 * channels * sizeof(C));
    for (int64_t i = 0; i < place.count; ++i) {
      if (in_range[i]) continue;
      gather(at<T>(call.x, place) + i, call.x.channel, channels, xs.data);
      gather(at<T>(call.dy, place) + i, call.dy.channel, channels, dys.data);
      rescued_backward<C, true, T, T>(xs.data, dys.data, nullptr, dxs.data, nullptr,
                                      {gain, nullptr}, {shares.data, shares.data + channels},
                                      call.norm);
      if (call.dx != nullptr) scatter(dxs.data, channels, dx_at(place) + i, call.R);
    }
    for (int64_t c = 0; c < 2 * channels; ++c) sums[c] += shares.data[c];
  }
};

template <class C, class T>
inline void all_tiles(const ChannelBackward& call) {
  const int64_t channels = call.norm.N;
  const Tiling tiling(slabs_of<C>(channels), kLanes<C>, call.B, call.R);
  const int64_t groups = (tiling.count + kTiles - 1) / kTiles;
  const Scratch<double> sums(groups * 2 * channels);
  parallel(call.pool, groups, 1, [&](int64_t begin, int64_t end) {
    const Worker<C, T> worker(call, tiling);
    std::memset(sums.data + begin * 2 * channels, 0, (end - begin) * 2 * channels * sizeof(double));
    for (int64_t g = begin; g < end; ++g) {
      worker.tiles(g * kTiles, smaller(tiling.count, (g + 1) * kTiles),
                   sums.data + g * 2 * channels);
    }
  });
  double* const to[2] = {call.dgain, call.dbias};
  for (int k = 0; k < 2; ++k) {
    if (to[k] == nullptr) continue;
    std::memset(to[k], 0, channels * sizeof(double));
    for (int64_t g = 0; g < groups; ++g) {
      const double* share = sums.data + (g * 2 + k) * channels;
      for (int64_t c = 0; c < channels; ++c) to[k][c] += share[c];
    }
  }
}

NORMKIT_END

namespace normkit {
namespace NORMKIT_ISA {

void channel_backward(const ChannelBackward& call) {
  with_type(call.x.dtype, [&](auto type, auto compute) {
    all_tiles<decltype(compute), typename decltype(type)::type>(call);
  });
}

}  // namespace NORMKIT_ISA
}  // namespace normkit
