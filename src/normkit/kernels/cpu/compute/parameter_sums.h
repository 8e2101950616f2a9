// The gradients of gain and bias, summed in an order that does not depend on threads: rows in
// blocks of 16, each summed in C; blocks in groups of 16, each summed in float64; groups in order.
// Rows without gradient at the end change nothing.
#pragma once
#include "wide_rows.h"

#include "../common/backward.h"

NORMKIT_BEGIN

constexpr int64_t kRows = 16;    // in a block
constexpr int64_t kBlocks = 16;  // in a group
constexpr int64_t kColumns = 2048;

inline int64_t parts(int64_t count, int64_t size) { return (count + size - 1) / size; }

template <class C>
inline void clear(C* values, int64_t count) {
  std::memset(values, 0, count * sizeof(C));
}

template <class C>
inline void add_to(double* sum, const C* values, int64_t count) {
  vectors<double>(0, count, [=](int64_t i, auto n) {
    store(sum + i, load<double>(sum + i, n) + load<double>(values + i, n), n);
  });
}

// Does all rows of a call: work(call, begin, end, shares, helpers) does some, and adds their shares
// to what `shares` points to.
template <class C>
struct ParameterSums {
  void (*work)(const Backward& call, int64_t begin, int64_t end, Shares<C>, Helpers);
  const Backward& call;
  const int64_t N = call.norm.N;
  const int64_t rows = call.norm.M / (call.affine.groups > 0 ? call.affine.groups : 1);
  const int64_t blocks = parts(rows, kRows);
  const int64_t groups = parts(blocks, kBlocks);
  const bool gain = call.gives_dgain(), bias = call.gives_dbias();

  void run() const {
    const int64_t count = call.affine.groups;
    if (!gain && !bias) return each_row();
    if (count >= 4 * call.pool.threads) return many_affine_groups();
    for (int64_t a = 0; a < count; ++a) affine_group(a);
  }

  void each_row() const {
    const int64_t M = call.norm.M;
    if (M < call.pool.threads && N > kChunk) return work(call, 0, M, {}, &call.pool);
    parallel(call.pool, M, kChunk / (N + 1) + 1,
             [&](int64_t begin, int64_t end) { work(call, begin, end, {}, nullptr); });
  }

  // Modulations, enough to give each to one thread.
  void many_affine_groups() const {
    const int64_t grain = kChunk / (rows * N + 1) + 1;
    parallel(call.pool, call.affine.groups, grain, [&](int64_t begin, int64_t end) {
      const Scratch<C> block(2 * N);
      const Scratch<double> sums(blocks > 1 ? 4 * N : 0);
      double* const to[2] = {gain ? sums.data : nullptr, bias ? sums.data + N : nullptr};
      for (int64_t a = begin; a < end; ++a) {
        if (blocks > 1) {
          in_order(a * rows, to, block.data, sums.data + 2 * N, nullptr);
          give(a, sums.data);
        } else {
          one_block(a * rows, 0, block.data, nullptr);
          give(a, block.data);
        }
      }
    });
  }

  // The rows that share one gain; their sums go to row `a` of dgain and dbias.
  void affine_group(int64_t a) const {
    const bool modulated = call.affine.modulation != nullptr;
    const Scratch<double> sums(modulated ? 2 * N : 0);
    double* const base[2] = {modulated ? sums.data : call.dgain,
                             modulated ? sums.data + N : call.dbias};
    double* const to[2] = {gain ? base[0] : nullptr, bias ? base[1] : nullptr};
    const int64_t first = a * rows;
    if (rows < call.pool.threads && N > kChunk) {
      long_rows(first, to);
    } else if (groups >= 2 * call.pool.threads) {
      by_group(first, to);
    } else {
      by_block(first, to);
    }
    if (modulated) give(a, sums.data);
  }

  // To row `a` of the outputs of a modulation.
  template <class S>
  void give(int64_t a, const S* sums) const {
    const Modulation& by = *call.affine.modulation;
    if (gain) write_row(sums, N, a, by.dscale, by.dscale_dtype);
    if (bias) write_row(sums + N, N, a, by.dshift, by.dshift_dtype);
  }

  // Few long rows: all threads work on each.
  void long_rows(int64_t first, double* const (&to)[2]) const {
    const Scratch<C> block(2 * N);
    const Scratch<double> group(2 * N);
    in_order(first, to, block.data, group.data, &call.pool);
  }

  // All groups of blocks, one after the other.
  void in_order(int64_t first, double* const (&to)[2], C* block, double* group,
                Helpers helpers) const {
    clear_all(to);
    for (int64_t g = 0; g < groups; ++g) {
      one_group(first, g, block, group, helpers);
      for (int k = 0; k < 2; ++k) {
        if (to[k] != nullptr) add_to(to[k], group + k * N, N);
      }
    }
  }

  // The sums of group g, from its blocks in order.
  void one_group(int64_t first, int64_t g, C* block, double* group, Helpers helpers) const {
    clear(group, 2 * N);
    for (int64_t b = g * kBlocks; b < smaller(blocks, (g + 1) * kBlocks); ++b) {
      one_block(first, b, block, helpers);
      add_to(group, block, 2 * N);
    }
  }

  void one_block(int64_t first, int64_t b, C* block, Helpers helpers) const {
    clear(block, 2 * N);
    const Shares<C> shares = {gain ? block : nullptr, bias ? block + N : nullptr};
    work(call, first + b * kRows, first + smaller(rows, (b + 1) * kRows), shares, helpers);
  }

  void by_group(int64_t first, double* const (&to)[2]) const {
    const Scratch<double> sums(groups * 2 * N);
    parallel(call.pool, groups, 1, [&](int64_t begin, int64_t end) {
      const Scratch<C> block(2 * N);
      for (int64_t g = begin; g < end; ++g) {
        one_group(first, g, block.data, sums.data + g * 2 * N, nullptr);
      }
    });
    columns(to, [&](double* sum, int64_t begin, int64_t count) {
      for (int64_t g = 0; g < groups; ++g) add_to(sum, sums.data + g * 2 * N + begin, count);
    });
  }

  // Too few groups to share out: the blocks are, and are put together afterwards.
  void by_block(int64_t first, double* const (&to)[2]) const {
    const Scratch<C> sums(blocks * 2 * N);
    parallel(call.pool, blocks, kChunk / (kRows * N + 1) + 1, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        one_block(first, b, sums.data + b * 2 * N, nullptr);
      }
    });
    columns(to, [&](double* sum, int64_t begin, int64_t count) {
      double group[kColumns];
      for (int64_t g = 0; g < groups; ++g) {
        clear(group, count);
        for (int64_t b = g * kBlocks; b < smaller(blocks, (g + 1) * kBlocks); ++b) {
          add_to(group, sums.data + b * 2 * N + begin, count);
        }
        add_to(sum, group, count);
      }
    });
  }

  void clear_all(double* const (&to)[2]) const {
    for (double* sum : to) {
      if (sum != nullptr) clear(sum, N);
    }
  }

  // Call add(sum, begin, count) for pieces of the gain's and the bias's columns.
  template <class Add>
  void columns(double* const (&to)[2], const Add& add) const {
    clear_all(to);
    for (int k = 0; k < 2; ++k) {
      if (to[k] == nullptr) continue;
      parallel(call.pool, parts(N, kColumns), 4, [&](int64_t begin, int64_t end) {
        for (int64_t c = begin; c < end; ++c) {
          const int64_t from = c * kColumns, count = smaller(kColumns, N - from);
          add(to[k] + from, k * N + from, count);
        }
      });
    }
  }
};

NORMKIT_END
