// A group of channels: where its elements lie, and its statistics. See Groups (planes.h).
#pragma once
#include "planes.h"
#include "rescue.h"
#include "runs.h"

NORMKIT_BEGIN

// One channel of one sample: R positions side by side.
struct Segment {
  int64_t b, c;
};

// The segments of group u, in order.
struct Segments {
  const Groups& groups;
  int64_t u;

  int64_t count() const { return groups.across ? groups.B : groups.K; }
  Segment operator()(int64_t i) const {
    if (groups.across) return {i, u};
    const int64_t per_sample = groups.C / groups.K;
    return {u / per_sample, u % per_sample * groups.K + i};
  }
};

template <class T>
inline const T* at(const Planes& planes, Segment s) {
  return static_cast<const T*>(planes.data) + s.b * planes.batch + s.c * planes.channel;
}

// The segment in a contiguous result; null where that is.
template <class T>
inline T* at(void* result, const Groups& groups, Segment s) {
  return result == nullptr ? nullptr : static_cast<T*>(result) + (s.b * groups.C + s.c) * groups.R;
}

// Call body(segment, run) for the valid stretches of a group.
template <class Body>
inline void over_runs(const Segments& segments, const Runs& runs, const Body& body) {
  for (int64_t i = 0; i < segments.count(); ++i) {
    const Segment s = segments(i);
    for (const Run* run = runs.begin(s.b); run != runs.end(s.b); ++run) body(s, *run);
  }
}

inline int64_t valid_in(const Segments& segments, const Runs& runs) {
  int64_t n = 0;
  for (int64_t i = 0; i < segments.count(); ++i) n += runs.count(segments(i).b);
  return n;
}

// A sum of very many numbers (a mask can cut a group into any number of runs): what each addition
// loses is kept beside it (Neumaier 1974).
struct Total {
  double sum = 0, lost = 0;

  void add(double value) {
    const double next = sum + value;
    lost += std::fabs(sum) >= std::fabs(value) ? (sum - next) + value : (value - next) + sum;
    sum = next;
  }
  double value() const { return lost == lost ? sum + lost : sum; }  // infinities lose NaN
};

template <class C>
struct GroupMoments {
  Moments<C> in;      // where C could square the elements
  Rescued rescued;    // where not
  double mean, var;
  int64_t n;
};

template <class C, class T>
NORMKIT_ONCE void rescue_group(const Planes& x, const Segments& segments, const Runs& runs,
                               GroupMoments<C>& m) {
  const Scratch<T> all(m.n);
  int64_t count = 0;
  over_runs(segments, runs, [&](Segment s, Run run) {
    const T* from = at<T>(x, s);
    for (int64_t i = run.begin; i < run.end; ++i) all.data[count++] = from[i];
  });
  const Norm norm = {1, m.n, true, EpsPlace::inside, segments.groups.eps, false, m.n};
  const Rescued r = rescue<true>(all.data, norm);
  double square = 0;
  for (int64_t i = 0; i < m.n; ++i) square += r(all.data[i]) * r.by * (r(all.data[i]) * r.by);
  m.mean = (r.mean + r.rest) / r.scale + r.offset;
  m.var = square / m.n / r.scale / r.scale;
  m.rescued = r;
}

// As moments() of moments.h, over all runs of a group.
template <class C, class T>
NORMKIT_ONCE GroupMoments<C> group_moments(const Planes& x, const Segments& segments,
                                           const Runs& runs) {
  GroupMoments<C> m = {};
  m.n = valid_in(segments, runs);
  m.in.in_range = true;
  if (m.n == 0) return m;
  Total sum, rests, square;
  over_runs(segments, runs, [&](Segment s, Run run) {
    const T* from = at<T>(x, s) + run.begin;
    double part[1];
    row_sums<C, 1>(run.end - run.begin, nullptr, [=](Terms<C, 1>& to, int64_t i, auto n) {
      to.sum[0] = to.sum[0] + load<C>(from + i, n);
    }, part);
    sum.add(part[0]);
  });
  m.in.mean = C(sum.value() / m.n);
  const Vec<C> mean = Vec<C>::all(m.in.mean);
  over_runs(segments, runs, [&](Segment s, Run run) {
    const T* from = at<T>(x, s) + run.begin;
    double part[2];
    row_sums<C, 2>(run.end - run.begin, nullptr, [=](Terms<C, 2>& to, int64_t i, auto n) {
      const Vec<C> d = only(load<C>(from + i, n) - mean, n);
      to.sum[0] = to.sum[0] + d;
      to.sum[1] = fma(d, d, to.sum[1]);
    }, part);
    rests.add(part[0]);
    square.add(part[1]);
  });
  const double rest = rests.value() / m.n;
  m.in.rest = C(rest);
  m.mean = double(m.in.mean) + rest;
  const double variance = square.value() / m.n - rest * rest;
  m.var = variance < 0 ? 0.0 : variance;
  Norm norm = {};
  norm.eps = segments.groups.eps;
  finish(m.in, norm, m.var);
  if (!m.in.in_range) rescue_group<C, T>(x, segments, runs, m);
  return m;
}

// Zeros between the runs of a segment.
template <class T>
inline void clear_rest(T* segment, int64_t b, const Groups& groups, const Runs& runs) {
  int64_t from = 0;
  for (const Run* run = runs.begin(b); run != runs.end(b); ++run) {
    std::memset(static_cast<void*>(segment + from), 0, (run->begin - from) * sizeof(T));
    from = run->end;
  }
  std::memset(static_cast<void*>(segment + from), 0, (groups.R - from) * sizeof(T));
}

template <class C>
inline C of_channel(const void* parameter, int64_t c, C otherwise) {
  return parameter == nullptr ? otherwise : static_cast<const C*>(parameter)[c];
}

NORMKIT_END
