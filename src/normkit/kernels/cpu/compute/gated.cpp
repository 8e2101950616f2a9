// RMSNorm with a gate, forward and backward: rows of groups of features. Every tensor is read and
// written by way of the compute type, so that this code is compiled once for each.
#include "parameter_sums.h"
#include "wide_rows.h"

#include "../common/gated.h"

NORMKIT_BEGIN

constexpr int64_t kGatedGrain = 8192;  // elements that are worth a thread

// The norm of one group.
inline Norm of_group(const Norm& norm, const Gating& gating) {
  Norm group = norm;
  group.N = group.measured = norm.N / gating.groups;
  return group;
}

template <class C>
inline Gain<C> part_of(const Affine& affine, int64_t first) {
  const auto part = [=](const void* p) {
    return p == nullptr ? nullptr : static_cast<const C*>(p) + first;
  };
  return {part(affine.gain), part(affine.bias)};
}

// Row m of an output: where it lies if that is in the compute type, else memory to be written from.
template <class C>
struct WrittenRows {
  void* const out;
  const Dtype dtype;
  const int64_t width;
  const bool in_place = dtype == kCompute<C>;
  const Scratch<C> memory{in_place || out == nullptr ? 0 : width};

  WrittenRows(void* out, Dtype dtype, int64_t width) : out(out), dtype(dtype), width(width) {}

  C* operator()(int64_t m) const {
    return in_place && out != nullptr ? static_cast<C*>(out) + m * width : memory.data;
  }
  void done(int64_t m) const {
    if (!in_place && out != nullptr) write_row(memory.data, width, m, out, dtype);
  }
};

template <class C>
NORMKIT_ONCE void gated_rows_forward(const Forward& call, int64_t begin, int64_t end) {
  const int64_t N = call.norm.N;
  const Norm norm = of_group(call.norm, *call.gating);
  const GatedNorm how = {norm, *call.gating, call.x.dtype};
  const WideRows<C> xs(call.x, N), gates(call.gating->gate, N);
  const WrittenRows<C> ys(call.y, call.y_dtype, N);
  const Scratch<C> a(norm.N);
  for (int64_t m = begin; m < end; ++m) {
    const C *x = xs(m), *gate = gates(m);
    C* y = ys(m);
    for (int64_t first = 0; first < N; first += norm.N) {
      gated_forward_row(x + first, gate + first, y + first, a.data, part_of<C>(call.affine, first),
                        how);
    }
    ys.done(m);
  }
}

template <class C>
inline C* from(C* row, int64_t first) {
  return row == nullptr ? nullptr : row + first;
}

template <class C>
NORMKIT_ONCE void gated_rows_backward(const Backward& call, int64_t begin, int64_t end,
                                      Shares<C> shares, Helpers) {
  const Gating& gating = *call.gating;
  const int64_t N = call.norm.N;
  const Norm norm = of_group(call.norm, gating);
  const GatedNorm how = {norm, gating, call.x.dtype};
  const WideRows<C> xs(call.x, N), gates(gating.gate, N), dys(call.dy, N);
  const WrittenRows<C> dxs(call.dx, call.dx_dtype, N), dgates(gating.dgate, gating.dgate_dtype, N);
  const Scratch<C> memory(4 * norm.N);
  C* const data = memory.data;
  const GatedMemory<C> parts = {data, data + norm.N, data + 2 * norm.N, data + 3 * norm.N};
  for (int64_t m = begin; m < end; ++m) {
    const C *x = xs(m), *gate = gates(m), *dy = dys(m);
    C *dx = dxs(m), *dgate = dgates(m);
    for (int64_t first = 0; first < N; first += norm.N) {
      const GatedRow<C> row = {x + first, gate + first, dy + first, from(dx, first),
                               from(dgate, first)};
      gated_backward_row(row, parts, part_of<C>(call.affine, first),
                         {from(shares.gain, first), from(shares.bias, first)}, how);
    }
    dxs.done(m);
    dgates.done(m);
  }
}

NORMKIT_END

namespace normkit {
namespace NORMKIT_ISA {

void gated_forward(const Forward& call) {
  const int64_t grain = kGatedGrain / (call.norm.N + 1) + 1;
  parallel(call.pool, call.norm.M, grain, [&](int64_t begin, int64_t end) {
    if (call.x.dtype == Dtype::float64) return gated_rows_forward<double>(call, begin, end);
    gated_rows_forward<float>(call, begin, end);
  });
}

void gated_backward(const Backward& call) {
  if (call.x.dtype == Dtype::float64) {
    return ParameterSums<double>{gated_rows_backward<double>, call}.run();
  }
  ParameterSums<float>{gated_rows_backward<float>, call}.run();
}

}  // namespace NORMKIT_ISA
}  // namespace normkit
