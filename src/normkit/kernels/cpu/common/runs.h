// A mask as runs: stretches of positions that are valid. Padding makes one run of a sample.
#pragma once
#include "parallel.h"

NORMKIT_BEGIN

struct Run {
  int64_t begin, end;
};

// The runs of B samples of R positions; of one run each where there is no mask.
class Runs {
 public:
  Runs(const bool* valid, int64_t B, int64_t R)
      : first_(B + 1), runs_(valid == nullptr ? B : found(valid, B, R, nullptr, nullptr)) {
    if (valid != nullptr) {
      found(valid, B, R, first_.data, runs_.data);
      return;
    }
    for (int64_t b = 0; b <= B; ++b) first_.data[b] = b;
    for (int64_t b = 0; b < B; ++b) runs_.data[b] = {0, R};
  }

  const Run* begin(int64_t b) const { return runs_.data + first_.data[b]; }
  const Run* end(int64_t b) const { return runs_.data + first_.data[b + 1]; }

  // Valid positions of sample b.
  int64_t count(int64_t b) const {
    int64_t n = 0;
    for (const Run* run = begin(b); run != end(b); ++run) n += run->end - run->begin;
    return n;
  }

 private:
  // How many runs there are; writes them, and the first of each sample, where asked.
  static int64_t found(const bool* valid, int64_t B, int64_t R, int64_t* first, Run* runs) {
    int64_t count = 0;
    for (int64_t b = 0; b < B; ++b, valid += R) {
      if (first != nullptr) first[b] = count;
      for (int64_t i = 0; i < R; ++i) {
        if (!valid[i]) continue;
        const int64_t begin = i;
        while (i < R && valid[i]) ++i;
        if (runs != nullptr) runs[count] = {begin, i};
        ++count;
      }
    }
    if (first != nullptr) first[B] = count;
    return count;
  }

  Scratch<int64_t> first_;
  Scratch<Run> runs_;
};

NORMKIT_END
