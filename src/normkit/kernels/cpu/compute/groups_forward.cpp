// GroupNorm, InstanceNorm, BatchNorm, forward: a group after the other.
#include "table.h"

#include "../common/dispatch.h"
#include "../common/group.h"

NORMKIT_BEGIN

constexpr int64_t kGrain = 32768;  // elements that are worth a thread

template <class C, class T>
inline void write_run(const GroupsForward& call, const GroupMoments<C>& m, Segment s, Run run) {
  const T* x = at<T>(call.x, s);
  T* y = at<T>(call.y, call.groups, s);
  const C gain = of_channel<C>(call.affine.gain, s.c, 1);
  const C bias = of_channel<C>(call.affine.bias, s.c, 0);
  if (!m.in.in_range) {
    for (int64_t i = run.begin; i < run.end; ++i) {
      y[i] = narrowed<T>(m.rescued(x[i]) * gain + bias);
    }
    return;
  }
  const Standardise<C, true> standardise(m.in);
  const Vec<C> by = Vec<C>::all(gain), shift = Vec<C>::all(bias);
  vectors<C>(run.begin, run.end, [=](int64_t i, auto n) {
    store(y + i, fma(standardise(load<C>(x + i, n)), by, shift), n);
  });
}

template <class C, class T>
NORMKIT_ONCE void one_group(const GroupsForward& call, const Runs& runs, int64_t u) {
  const Segments segments = {call.groups, u};
  const GroupMoments<C> m = group_moments<C, T>(call.x, segments, runs);
  call.mean[u] = m.mean;
  call.var[u] = m.var;
  over_runs(segments, runs, [&](Segment s, Run run) { write_run<C, T>(call, m, s, run); });
  if (call.groups.valid == nullptr) return;
  for (int64_t i = 0; i < segments.count(); ++i) {
    clear_rest(at<T>(call.y, call.groups, segments(i)), segments(i).b, call.groups, runs);
  }
}

NORMKIT_END

namespace normkit {
namespace NORMKIT_ISA {

void groups_forward(const GroupsForward& call) {
  const Groups& groups = call.groups;
  if (groups.count() == 0) return;
  const Runs runs(groups.valid, groups.B, groups.R);
  const int64_t size = groups.B * groups.C * groups.R / groups.count();
  with_type(call.x.dtype, [&](auto type, auto compute) {
    using T = typename decltype(type)::type;
    parallel(call.pool, groups.count(), kGrain / (size + 1) + 1, [&](int64_t begin, int64_t end) {
      for (int64_t u = begin; u < end; ++u) one_group<decltype(compute), T>(call, runs, u);
    });
  });
}

}  // namespace NORMKIT_ISA
}  // namespace normkit
