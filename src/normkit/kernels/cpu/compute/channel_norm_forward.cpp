// LayerNorm over channels, forward: tiles of positions, see tile.h.
#include "table.h"

#include "../common/dispatch.h"
#include "../common/forward.h"
#include "../common/tile.h"

NORMKIT_BEGIN

constexpr int64_t kGrain = 32768;  // elements that are worth a thread

// One thread's work: tiles, and the memory that they need.
template <class C, class T>
struct Worker {
  const ChannelForward& call;
  const Tiling& tiling;
  const int64_t channels = call.norm.N;
  const Gain<C> by = {static_cast<const C*>(call.affine.gain),
                      static_cast<const C*>(call.affine.bias)};
  Scratch<C> tile{tiling.width * channels};
  Scratch<SlabMoments<C>> moments{kMostSlabs};

  Worker(const ChannelForward& call, const Tiling& tiling) : call(call), tiling(tiling) {}

  T* y_at(const Place& place) const {
    return static_cast<T*>(call.y) + place.b * channels * call.R + place.first;
  }

  NORMKIT_ONCE void tiles(int64_t begin, int64_t end) const {
    for (int64_t t = begin; t < end; ++t) {
      const Place place = tiling(t, call.R);
      pack(at<T>(call.x, place), call.x.channel, channels, place.count, tile.data);
      bool all_in_range = true;
      for (int64_t first = 0; first < place.count; first += kLanes<C>) {
        SlabMoments<C>& m = moments.data[first / kLanes<C>];
        slab_moments(tile.data + first * channels, call.norm, place.count - first, m);
        all_in_range = all_in_range && m.all_in_range;
      }
      write(place, at<T>(call.x, tiling(t + 1 < end ? t + 1 : t, call.R)));
      if (!all_in_range) rescued(place);
    }
  }

  // y of a tile; the tile at `next` is fetched meanwhile.
  void write(const Place& place, const T* next) const {
    constexpr int lanes = kLanes<C>, width = Vec<C>::width;
    T* y = y_at(place);
    for (int64_t c = 0; c < channels; ++c, y += call.R, next += call.x.channel) {
      const Vec<C> gain = Vec<C>::all(by.gain == nullptr ? C(1) : by.gain[c]);
      const Vec<C> bias = Vec<C>::all(by.bias == nullptr ? C(0) : by.bias[c]);
      const C* slab = tile.data + c * lanes;
      const SlabMoments<C>* m = moments.data;
      const auto step = [&](int64_t at, int i, auto n) {
        const Vec<C> x_hat = m->x_hat(load<C>(slab + i, Full{}), i);
        store(y + at + i, fma(x_hat, gain, bias), n);
      };
      int64_t at = 0;
      for (; at + lanes <= place.count; at += lanes, slab += channels * lanes, ++m) {
        expect_lanes(next + at);
#pragma GCC unroll 8
        for (int i = 0; i < lanes; i += width) step(at, i, Full{});
      }
      if (at == place.count) continue;
      expect_lanes(next + at);
      vectors<C>(0, place.count - at, [&](int64_t i, auto n) { step(at, int(i), n); });
    }
  }

  NORMKIT_ONCE void rescued(const Place& place) const {
    const Scratch<T> x(channels), y(channels);
    for (int64_t i = 0; i < place.count; ++i) {
      if (moments.data[i / kLanes<C>].in_range[i % kLanes<C>]) continue;
      gather(at<T>(call.x, place) + i, call.x.channel, channels, x.data);
      rescued_forward<C, true>(x.data, y.data, by, call.norm);
      scatter(y.data, channels, y_at(place) + i, call.R);
    }
  }
};

NORMKIT_END

namespace normkit {
namespace NORMKIT_ISA {

void channel_forward(const ChannelForward& call) {
  with_type(call.x.dtype, [&](auto type, auto compute) {
    using C = decltype(compute);
    using T = typename decltype(type)::type;
    const Tiling tiling(slabs_of<C>(call.norm.N), kLanes<C>, call.B, call.R);
    const int64_t grain = kGrain / (tiling.width * call.norm.N) + 1;
    parallel(call.pool, tiling.count, grain, [&](int64_t begin, int64_t end) {
      Worker<C, T>(call, tiling).tiles(begin, end);
    });
  });
}

}  // namespace NORMKIT_ISA
}  // namespace normkit
