// Norms over rows, forward: which thread takes which row.
#include "table.h"

#include "../common/addition.h"
#include "../common/dispatch.h"
#include "../common/forward.h"

NORMKIT_BEGIN

// Elements that are worth a thread.
constexpr int64_t kGrain = 32768;

// Row m of what is normalised: of x, or of the sum that is written to h first.
template <class C, class H>
struct Source {
  const Forward& call;
  H* packed_x;
  void* packed_residual;

  const H* operator()(int64_t m, Helpers helpers) const {
    const int64_t N = call.norm.N;
    if (!call.add.present) return RowReader<H>{call.x, N, packed_x}(m);
    H* h = static_cast<H*>(call.add.h) + m * N;
    with_types(call.x.dtype, call.add.residual.dtype, [&](auto x_type, auto r_type, auto) {
      using X = typename decltype(x_type)::type;
      using R = typename decltype(r_type)::type;
      X* packed = reinterpret_cast<X*>(packed_x);
      const X* x = RowReader<X>{call.x, N, packed}(m);
      const R* r = RowReader<R>{call.add.residual, N, static_cast<R*>(packed_residual)}(m);
      over_chunks(N, helpers, [=](int64_t begin, int64_t end) {
        add_part(x, r, h, begin, end, m * N);
      });
    });
    return h;
  }

  template <class X, class R>
  void add_part(const X* x, const R* r, H* h, int64_t begin, int64_t end, int64_t first) const {
    if constexpr (sizeof(C) == sizeof(double) ? sizeof(X) == 8 : sizeof(X) < 8) {
      add_row<C>(call.add, x + begin, r + begin, h + begin, first + begin, end - begin);
    }
  }
};

template <class C, bool Center, class H, class Y>
NORMKIT_ONCE void rows_forward(const Forward& call, int64_t begin, int64_t end, Helpers helpers) {
  const Norm& norm = call.norm;
  const int64_t N = norm.N;
  const bool packs_residual = call.add.present && call.add.residual.step != 1;
  const Scratch<C> packed(call.x.step == 1 ? 0 : N), residual(packs_residual ? N : 0);
  const Source<C, H> source = {call, reinterpret_cast<H*>(packed.data), residual.data};
  for (int64_t m = begin; m < end; ++m) {
    const H* x = source(m, helpers);
    const Gain<C> gain = gain_of<C>(call.affine, norm, m);
    const H* next = call.add.present ? x : RowReader<H>{call.x, N, nullptr}.after(m, x);
    forward_row<C, Center>(x, next, static_cast<Y*>(call.y) + m * N, gain, norm, helpers);
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
