// What the norms over rows are asked: shared by the bindings and the code of every ISA.
#pragma once
#include "parallel.h"
#include "rows.h"

namespace normkit {

enum class EpsPlace : int { inside, outside, clamp };

// M rows of N; the compute type C is float, or double where the normalised rows are float64.
struct Norm {
  int64_t M, N;
  bool center;
  EpsPlace eps_place;
  double eps;
  bool round_before_gain;
  int64_t measured;  // elements of a row that its mean square sees; N for all
};

// Gain and bias that come as rows beside x, one for M / groups rows: 1 + scale, and shift, whose
// data are null where absent. Of the gradients, (groups, N), those that nobody asks for are null.
struct Modulation {
  Rows scale, shift;
  void* dscale;
  Dtype dscale_dtype;
  void* dshift;
  Dtype dshift_dtype;
};

// Gain and bias in the compute type, null where absent: (groups, N), for M / groups rows each.
// Those of a modulation are made from it row by row.
struct Affine {
  const void* gain;
  const void* bias;
  int64_t groups;
  const Modulation* modulation = nullptr;
};

// h = dropout(x) + alpha * residual, the rows that are then normalised; (M, N) in memory.
struct Addition {
  bool present;
  Rows residual;
  double alpha;
  double dropout;
  uint64_t seed;
  void* h;
  Dtype h_dtype;
};

// A gate over rows of G groups of features, each normalised by itself: after the norm,
// y = (x_hat * gain + bias) * a(gate), or before it, where the norm sees x * a(gate).
struct Gating {
  Rows gate;
  bool before;
  bool sigmoid;       // a is the sigmoid; else a(t) = t * sigmoid(t)
  bool round_gained;  // to the dtype of x, before the gate that comes after
  int64_t groups;
  void* dgate;  // null where nobody asks
  Dtype dgate_dtype;
};

struct Forward {
  Norm norm;
  Affine affine;
  Rows x;
  Addition add;
  void* y;
  Dtype y_dtype;
  Pool pool;
  const Gating* gating = nullptr;
};

// dx is the gradient of x; where there was an addition, x is h, dh comes on top of what flows
// through the norm, and the sum goes to dx and alpha times it to dresidual.
struct Backward {
  Norm norm;
  Affine affine;
  Rows dy;
  Rows x;
  Addition add;
  const Rows* dh;
  void* dx;
  Dtype dx_dtype;
  void* dresidual;  // null where it is dx itself, or nobody asks
  Dtype dresidual_dtype;
  double* dgain;  // (groups, N); null where nobody asks
  double* dbias;
  Pool pool;
  const Gating* gating = nullptr;

  bool gives_dgain() const {
    return affine.modulation != nullptr ? affine.modulation->dscale != nullptr : dgain != nullptr;
  }
  bool gives_dbias() const {
    return affine.modulation != nullptr ? affine.modulation->dshift != nullptr : dbias != nullptr;
  }
};

struct ChannelForward;
struct ChannelBackward;
struct GroupsForward;
struct GroupsBackward;

// What one instruction set offers.
struct Table {
  // Writes a row widened to `to` (float32 or float64), plus one where asked.
  void (*widen)(const Rows& row, int64_t count, bool plus_one, Dtype to, void* out);
  // Writes float64 numbers in `to`.
  void (*narrow)(const double* values, int64_t count, Dtype to, void* out);
  void (*norm_forward)(const Forward&);
  void (*norm_backward)(const Backward&);
  void (*gated_forward)(const Forward&);
  void (*gated_backward)(const Backward&);
  void (*channel_forward)(const ChannelForward&);
  void (*channel_backward)(const ChannelBackward&);
  void (*groups_forward)(const GroupsForward&);
  void (*groups_backward)(const GroupsBackward&);
};

}  // namespace normkit
