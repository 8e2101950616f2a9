// Norms over rows, forward: which thread takes which row.
#include "modulation.h"

#include "../common/addition.h"
#include "../common/dispatch.h"

NORMKIT_BEGIN

// Elements that are worth a thread.
constexpr int64_t kGrain = 32768;

// Memory for a row of x and of the residual where they are not read in place.
struct Packed {
  void* x;
  void* residual;
};

// Write row m of h.
NORMKIT_ONCE void write_sum(const Forward& call, int64_t m, Packed packed, Helpers helpers) {
  with_types(call.x.dtype, call.add.residual.dtype, [&](auto x_type, auto r_type, auto compute) {
    using C = decltype(compute);
    using X = typename decltype(x_type)::type;
    using R = typename decltype(r_type)::type;
    const int64_t N = call.norm.N;
    const X* x = RowReader<X>{call.x, N, static_cast<X*>(packed.x)}(m);
    const R* r = RowReader<R>{call.add.residual, N, static_cast<R*>(packed.residual)}(m);
    auto* h = static_cast<typename Promoted<X, R>::type*>(call.add.h) + m * N;
    over_chunks(N, helpers, [=, &call](int64_t begin, int64_t end) {
      add_row<C>(call.add, x + begin, r + begin, h + begin, m * N + begin, end - begin);
    });
  });
}

template <class C, bool Center, class H, class Y>
NORMKIT_ONCE void rows_forward(const Forward& call, int64_t begin, int64_t end, Helpers helpers) {
  const Norm& norm = call.norm;
  const int64_t N = norm.N;
  const bool packs_residual = call.add.present && call.add.residual.step != 1;
  const Scratch<double> packed(call.x.step == 1 ? 0 : N), residual(packs_residual ? N : 0);
  const RowReader<H> xs = {call.x, N, reinterpret_cast<H*>(packed.data)};
  const Gains<C> gains(call.affine, norm);
  for (int64_t m = begin; m < end; ++m) {
    const H *x, *next;
    if (call.add.present) {
      write_sum(call, m, {packed.data, residual.data}, helpers);
      x = next = static_cast<const H*>(call.add.h) + m * N;
    } else {
      x = xs(m);
      next = xs.after(m, x);
    }
    forward_row<C, Center>(x, next, static_cast<Y*>(call.y) + m * N, gains(m), norm, helpers);
  }
}

template <class C, bool Center, class H, class Y>
inline void all_rows_forward(const Forward& call) {
  const int64_t M = call.norm.M, N = call.norm.N;
  if (M < call.pool.threads && N > kChunk) {
    return rows_forward<C, Center, H, Y>(call, 0, M, &call.pool);
  }
  parallel(call.pool, M, kGrain / (N + 1) + 1, [&](int64_t begin, int64_t end) {
    rows_forward<C, Center, H, Y>(call, begin, end, nullptr);
  });
}

NORMKIT_END

namespace normkit {
namespace NORMKIT_ISA {

void norm_forward(const Forward& call) {
  const Dtype from = call.add.present ? call.add.h_dtype : call.x.dtype;
  with_types(from, call.y_dtype, [&](auto h_type, auto y_type, auto compute) {
    using C = decltype(compute);
    using H = typename decltype(h_type)::type;
    using Y = typename decltype(y_type)::type;
    if (call.norm.center) return all_rows_forward<C, true, H, Y>(call);
    all_rows_forward<C, false, H, Y>(call);
  });
}

}  // namespace NORMKIT_ISA
}  // namespace normkit
