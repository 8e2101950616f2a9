// GroupNorm, InstanceNorm, BatchNorm, backward: a group after the other.
//
// dx = (g - mean(g) - x_hat * mean(g * x_hat)) * inverse, g = dy * gain; the two means are sums
// over segments, and these are the shares of a sample in the gradients of gain and bias.
#include "table.h"

#include "../common/backward.h"
#include "../common/dispatch.h"
#include "../common/group.h"

NORMKIT_BEGIN

constexpr int64_t kGrain = 16384;  // elements that are worth a thread

// One group: its moments, then what is subtracted from g.
template <class C, class T>
struct Work {
  const GroupsBackward& call;
  const Segments segments;
  const Runs& runs;
  const GroupMoments<C> m;
  Total means, slopes;
  Total of_segment[2] = {};  // the shares of those that were worked on last
  int64_t last = -1;
  double mean = 0, slope = 0;

  Work(const GroupsBackward& call, const Runs& runs, int64_t u)
      : call(call),
        segments{call.groups, u},
        runs(runs),
        m(group_moments<C, T>(call.x, segments, runs)) {}

  void run() {
    clear_shares();
    if (m.n == 0) return clear_gaps();
    over_runs(segments, runs, [&](Segment s, Run run) { add_run(s, run); });
    mean = means.value() / m.n;
    slope = slopes.value() / m.n;
    if (call.dx == nullptr) return;
    over_runs(segments, runs, [&](Segment s, Run run) { write_run(s, run); });
    clear_gaps();
  }

  // The place of a segment among the shares.
  int64_t share(Segment s) const { return call.groups.across ? s.c : s.b * call.groups.C + s.c; }

  void clear_shares() const {
    for (int64_t i = 0; i < segments.count(); ++i) {
      if (call.dgain != nullptr) call.dgain[share(segments(i))] = 0;
      if (call.dbias != nullptr) call.dbias[share(segments(i))] = 0;
    }
  }

  void clear_gaps() const {
    if (call.groups.valid == nullptr || call.dx == nullptr) return;
    for (int64_t i = 0; i < segments.count(); ++i) {
      clear_rest(at<T>(call.dx, call.groups, segments(i)), segments(i).b, call.groups, runs);
    }
  }

  void add_run(Segment s, Run run) {
    const T* x = at<T>(call.x, s) + run.begin;
    const T* dy = at<T>(call.dy, s) + run.begin;
    double sums[2] = {};
    if (m.in.in_range) {
      const Standardise<C, true> standardise(m.in);
      row_sums<C, 2>(run.end - run.begin, nullptr, [=](Terms<C, 2>& to, int64_t i, auto n) {
        const Vec<C> g = load<C>(dy + i, n);
        // Beyond a tail x counts as 0: 0 * infinity would be NaN.
        const Vec<C> x_hat = only(standardise(load<C>(x + i, n)), n);
        to.sum[0] = fma(g, x_hat, to.sum[0]);
        to.sum[1] = to.sum[1] + g;
      }, sums);
    } else {
      for (int64_t i = 0; i < run.end - run.begin; ++i) {
        sums[0] += widened(dy[i]) * m.rescued(x[i]);
        sums[1] += widened(dy[i]);
      }
    }
    add_shares(share(s), sums);
    const double gain = of_channel<C>(call.affine.gain, s.c, 1);
    slopes.add(gain * sums[0]);
    means.add(gain * sums[1]);
  }

  void add_shares(int64_t place, const double (&sums)[2]) {
    double* const to[2] = {call.dgain, call.dbias};
    for (int k = 0; k < 2; ++k) {
      if (place != last) of_segment[k] = {};
      of_segment[k].add(sums[k]);
      if (to[k] != nullptr) to[k][place] = of_segment[k].value();
    }
    last = place;
  }

  void write_run(Segment s, Run run) const {
    const T* x = at<T>(call.x, s);
    const T* dy = at<T>(call.dy, s);
    T* dx = at<T>(call.dx, call.groups, s);
    const C gain = of_channel<C>(call.affine.gain, s.c, 1);
    if (!m.in.in_range) {
      const Rescued& r = m.rescued;
      for (int64_t i = run.begin; i < run.end; ++i) {
        const double g = double(widened(dy[i])) * gain - mean - r(x[i]) * (slope * r.pull);
        dx[i] = narrowed<T>(g / r.by * r.scale);
      }
      return;
    }
    const Standardise<C, true> standardise(m.in);
    const Vec<C> by = Vec<C>::all(gain), mean_g = Vec<C>::all(C(mean)),
                 pull = Vec<C>::all(C(slope)), inverse = Vec<C>::all(m.in.inverse);
    vectors<C>(run.begin, run.end, [=](int64_t i, auto n) {
      const Vec<C> x_hat = standardise(load<C>(x + i, n));
      const Vec<C> g = load<C>(dy + i, n) * by - mean_g;
      store(dx + i, (g - x_hat * pull) * inverse, n);
    });
  }
};

NORMKIT_END

namespace normkit {
namespace NORMKIT_ISA {

void groups_backward(const GroupsBackward& call) {
  const Groups& groups = call.groups;
  if (groups.count() == 0) return;
  const Runs runs(groups.valid, groups.B, groups.R);
  const int64_t size = groups.B * groups.C * groups.R / groups.count();
  with_type(call.x.dtype, [&](auto type, auto compute) {
    using T = typename decltype(type)::type;
    parallel(call.pool, groups.count(), kGrain / (size + 1) + 1, [&](int64_t begin, int64_t end) {
      for (int64_t u = begin; u < end; ++u) Work<decltype(compute), T>(call, runs, u).run();
    });
  });
}

}  // namespace NORMKIT_ISA
}  // namespace normkit
