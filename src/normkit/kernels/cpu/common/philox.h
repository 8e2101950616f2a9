// Dropout masks from Philox4x32-10 (Salmon et al. 2011): bits of (seed, index), nothing is kept.
#pragma once
#include <cmath>

#include "vec.h"

NORMKIT_BEGIN

struct Words {
  uint32_t w[4];
};

inline Words philox(uint64_t counter, uint64_t seed) {
  Words c = {{uint32_t(counter), uint32_t(counter >> 32), 0, 0}};
  uint32_t key0 = uint32_t(seed), key1 = uint32_t(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t(0xD2511F53u) * c.w[0], b = uint64_t(0xCD9E8D57u) * c.w[2];
    c = {{uint32_t(b >> 32) ^ c.w[1] ^ key0, uint32_t(b), uint32_t(a >> 32) ^ c.w[3] ^ key1,
          uint32_t(a)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return c;
}

// Element i keeps its value, times 1 / (1 - p), where its word is at least p * 2^32.
template <class C>
struct Dropout {
  bool active;
  uint64_t seed;
  uint64_t threshold;
  C kept;

  Dropout(double p, uint64_t seed)
      : active(p > 0),
        seed(seed),
        threshold(uint64_t(std::nearbyint(p * 0x1p32))),
        kept(p < 1 ? C(1.0 / (1.0 - p)) : C(0)) {}

  // Factors of the elements from i on.
  Vec<C> operator()(int64_t i) const {
    C factor[Vec<C>::width];
    uint64_t block = ~uint64_t(0);
    Words words = {};
    for (int j = 0; j < Vec<C>::width; ++j) {
      const uint64_t index = uint64_t(i) + j;
      if (index / 4 != block) words = philox(block = index / 4, seed);
      factor[j] = words.w[index % 4] >= threshold ? kept : C(0);
    }
    return Vec<C>::load(factor);
  }
};

NORMKIT_END
