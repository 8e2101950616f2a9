// Sums over a row, in an order that its width alone decides.
//
// A row is cut into chunks, a chunk into blocks. Inside a block the elements go to kLanes sums in
// turn; blocks are added in order in float64, and so are chunks. No number passes through more than
// about 3 * 32 additions, and a row gives the same bits whether one thread works on it or each on
// some chunks.
#pragma once
#include "parallel.h"
#include "vec.h"

NORMKIT_BEGIN

constexpr int64_t kChunk = 16384;
constexpr int64_t kBlock = 512;

template <class C>
constexpr int kLanes = 128 / sizeof(C);

template <class C>
constexpr int kVectors = kLanes<C> / Vec<C>::width;

template <class C, int K>
struct Terms {
  Vec<C> sum[K];
};

inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// Call step(i, n) for the vectors of [begin, end): n is Full, or the length of the tail.
template <class C, class Step>
inline void vectors(int64_t begin, int64_t end, const Step& step) {
  constexpr int width = Vec<C>::width;
  int64_t i = begin;
  for (; i + width <= end; i += width) step(i, Full{});
  if (i < end) step(i, int(end - i));
}

// Add the K sums of a block: add(terms, i, n) adds to the sums of one vector of lanes.
template <class C, int K, class Add>
inline void add_block(int64_t begin, int64_t end, const Add& add, double (&total)[K]) {
  constexpr int width = Vec<C>::width, count = kVectors<C>;
  Terms<C, K> lanes[count];
#pragma GCC unroll 8
  for (auto& terms : lanes) {
    for (auto& sum : terms.sum) sum = Vec<C>::all(0);
  }
  int64_t i = begin;
  for (; i + kLanes<C> <= end; i += kLanes<C>) {
#pragma GCC unroll 8
    for (int a = 0; a < count; ++a) add(lanes[a], i + a * width, Full{});
  }
  for (; i + width <= end; i += width) add(lanes[0], i, Full{});
  if (i < end) add(lanes[0], i, int(end - i));
  for (int k = 0; k < K; ++k) {
#pragma GCC unroll 8
    for (int half = count / 2; half > 0; half /= 2) {
#pragma GCC unroll 8
      for (int a = 0; a < half; ++a) lanes[a].sum[k] = lanes[a].sum[k] + lanes[a + half].sum[k];
    }
    total[k] += lanes[0].sum[k].total();
  }
}

// Who works on the chunks of one row: all threads of a pool, or (null) the calling one in order.
using Helpers = const Pool*;

// Call body(begin, end) for each chunk of a row of N.
template <class Body>
inline void over_chunks(int64_t N, Helpers helpers, const Body& body) {
  const auto chunks = [&](int64_t begin, int64_t end) NORMKIT_ONCE {
    for (int64_t c = begin; c < end; ++c) body(c * kChunk, smaller(N, (c + 1) * kChunk));
  };
  const int64_t count = (N + kChunk - 1) / kChunk;
  if (helpers == nullptr) return chunks(0, count);
  parallel(*helpers, count, 1, chunks);
}

// The K sums of a row of N.
template <class C, int K, class Add>
inline void row_sums(int64_t N, Helpers helpers, const Add& add, double (&total)[K]) {
  const auto chunk_sum = [&](int64_t begin, int64_t end, double(&sum)[K]) {
    for (int k = 0; k < K; ++k) sum[k] = 0;
    for (int64_t i = begin; i < end; i += kBlock) {
      add_block<C, K>(i, smaller(end, i + kBlock), add, sum);
    }
  };
  if (N <= kChunk) return chunk_sum(0, N, total);
  struct Sums {
    double of[K];
  };
  const Scratch<Sums> parts((N + kChunk - 1) / kChunk);
  over_chunks(N, helpers, [&](int64_t begin, int64_t end) {
    chunk_sum(begin, end, parts.data[begin / kChunk].of);
  });
  for (int k = 0; k < K; ++k) total[k] = 0;
  for (int64_t c = 0; c * kChunk < N; ++c) {
    for (int k = 0; k < K; ++k) total[k] += parts.data[c].of[k];
  }
}

NORMKIT_END
