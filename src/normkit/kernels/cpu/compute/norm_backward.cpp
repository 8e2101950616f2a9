// Norms over rows, backward. The gradients of gain and bias are summed in an order that does not
// depend on threads: rows in blocks of 16, each summed in C; blocks in groups of 16, each summed
// in float64; groups in order. Rows without gradient at the end change nothing.
#include "table.h"

#include "../common/addition.h"
#include "../common/backward.h"
#include "../common/dispatch.h"

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

// Rows [begin, end); their shares of dgain and dbias are added to what `shares` points to.
template <class C, bool Center, class H, class Y>
NORMKIT_ONCE void rows_backward(const Backward& call, int64_t begin, int64_t end, Shares<C> shares,
                                Helpers helpers) {
  const int64_t N = call.norm.N;
  const bool split = call.add.present && (call.dresidual != nullptr || call.add.dropout > 0 ||
                                          call.dx_dtype != call.x.dtype);
  const Scratch<C> total(split ? N : 0);
  const Scratch<Y> packed_dy(call.dy.step == 1 ? 0 : N);
  const Scratch<H> packed_x(call.x.step == 1 ? 0 : N);
  const Scratch<H> packed_dh(call.dh == nullptr || call.dh->step == 1 ? 0 : N);
  const RowReader<Y> dys = {call.dy, N, packed_dy.data};
  const RowReader<H> xs = {call.x, N, packed_x.data};
  for (int64_t m = begin; m < end; ++m) {
    const Y* dy = dys(m);
    const H* x = xs(m);
    const H* dh = nullptr;
    if (call.dh != nullptr) dh = RowReader<H>{*call.dh, N, packed_dh.data}(m);
    H* dx = split || call.dx == nullptr ? nullptr : static_cast<H*>(call.dx) + m * N;
    backward_row<C, Center>(x, xs.after(m, x), dy, dys.after(m, dy), dh, dx,
                            split ? total.data : nullptr, gain_of<C>(call.affine, call.norm, m),
                            shares, call.norm, helpers);
    if (split) write_parts(call, m, total.data);
  }
}

// Shares the rows out; `work` is rows_backward for the dtypes of the call.
template <class C>
struct Driver {
  void (*work)(const Backward& call, int64_t begin, int64_t end, Shares<C>, Helpers);
  const Backward& call;
  const int64_t N = call.norm.N;
  const int64_t rows = call.norm.M / (call.affine.groups > 0 ? call.affine.groups : 1);
  const int64_t blocks = parts(rows, kRows);
  const int64_t groups = parts(blocks, kBlocks);
  const bool shares = call.dgain != nullptr || call.dbias != nullptr;

  void run() const {
    if (!shares) return each_row();
    for (int64_t a = 0; a < call.affine.groups; ++a) affine_group(a);
  }

  void each_row() const {
    const int64_t M = call.norm.M;
    if (M < call.pool.threads && N > kChunk) {
      return work(call, 0, M, {}, &call.pool);
    }
    parallel(call.pool, M, kChunk / (N + 1) + 1,
             [&](int64_t begin, int64_t end) { work(call, begin, end, {}, nullptr); });
  }

  // The rows that share one gain; their sums go to row `a` of dgain and dbias.
  void affine_group(int64_t a) const {
    double* to[2] = {call.dgain == nullptr ? nullptr : call.dgain + a * N,
                     call.dbias == nullptr ? nullptr : call.dbias + a * N};
    const int64_t first = a * rows;
    if (rows < call.pool.threads && N > kChunk) return long_rows(first, to);
    if (groups >= 2 * call.pool.threads) return by_group(first, to);
    by_block(first, to);
  }

  // Few long rows: all threads work on each.
  void long_rows(int64_t first, double* const (&to)[2]) const {
    const Scratch<C> block(2 * N);
    const Scratch<double> group(2 * N);
    clear_all(to);
    for (int64_t g = 0; g < groups; ++g) {
      one_group(first, g, block.data, group.data, &call.pool);
      for (int k = 0; k < 2; ++k) {
        if (to[k] != nullptr) add_to(to[k], group.data + k * N, N);
      }
    }
  }

  // The sums of group g, from its blocks in order.
  void one_group(int64_t first, int64_t g, C* block, double* group,
                 Helpers helpers) const {
    clear(group, 2 * N);
    for (int64_t b = g * kBlocks; b < smaller(blocks, (g + 1) * kBlocks); ++b) {
      one_block(first, b, block, helpers);
      add_to(group, block, 2 * N);
    }
  }

  void one_block(int64_t first, int64_t b, C* block, Helpers helpers) const {
    clear(block, 2 * N);
    const Shares<C> shares = {call.dgain == nullptr ? nullptr : block,
                              call.dbias == nullptr ? nullptr : block + N};
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

namespace normkit {
namespace NORMKIT_ISA {

void norm_backward(const Backward& call) {
  with_types(call.x.dtype, call.dy.dtype, [&](auto h_type, auto y_type, auto compute) {
    using C = decltype(compute);
    using H = typename decltype(h_type)::type;
    using Y = typename decltype(y_type)::type;
    if (call.norm.center) return Driver<C>{rows_backward<C, true, H, Y>, call}.run();
    Driver<C>{rows_backward<C, false, H, Y>, call}.run();
  });
}

}  // namespace NORMKIT_ISA
}  // namespace normkit
