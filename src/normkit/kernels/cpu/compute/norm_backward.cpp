// Norms over rows, backward.
#include "modulation.h"
#include "parameter_sums.h"

#include "../common/addition.h"

NORMKIT_BEGIN

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
  const Gains<C> gains(call.affine, call.norm);
  for (int64_t m = begin; m < end; ++m) {
    const Y* dy = dys(m);
    const H* x = xs(m);
    const H* dh = nullptr;
    if (call.dh != nullptr) dh = RowReader<H>{*call.dh, N, packed_dh.data}(m);
    H* dx = split || call.dx == nullptr ? nullptr : static_cast<H*>(call.dx) + m * N;
    backward_row<C, Center>(x, xs.after(m, x), dy, dys.after(m, dy), dh, dx,
                            split ? total.data : nullptr, gains(m), shares, call.norm, helpers);
    if (split) write_parts(call, m, total.data);
  }
}

NORMKIT_END

namespace normkit {
namespace NORMKIT_ISA {

void norm_backward(const Backward& call) {
  with_types(call.x.dtype, call.dy.dtype, [&](auto h_type, auto y_type, auto compute) {
    using C = decltype(compute);
    using H = typename decltype(h_type)::type;
    using Y = typename decltype(y_type)::type;
    if (call.norm.center) return ParameterSums<C>{rows_backward<C, true, H, Y>, call}.run();
    ParameterSums<C>{rows_backward<C, false, H, Y>, call}.run();
  });
}

}  // namespace NORMKIT_ISA
}  // namespace normkit
