// Tensors of channels: (B, C, R) for samples, channels and positions, which lie side by side.
#pragma once
#include "norm.h"

namespace normkit {

// Element (b, c, r) lies at data[b * batch + c * channel + r].
struct Planes {
  const void* data;
  Dtype dtype;
  int64_t batch, channel;
};

// LayerNorm over the channels at each position of x, whose positions lie side by side; y and dx
// are contiguous. norm.N is C, norm.M is B * R.
struct ChannelForward {
  Norm norm;
  Affine affine;
  int64_t B, R;
  Planes x;
  void* y;
  Pool pool;
};

struct ChannelBackward {
  Norm norm;
  Affine affine;
  int64_t B, R;
  Planes dy;
  Planes x;
  void* dx;       // null where nobody asks
  double* dgain;  // (C,); null where nobody asks
  double* dbias;
  Pool pool;
};

// Groups of channels that share their statistics: K channels of one sample, or (across) one channel
// of all samples. Positions that are not valid are in no statistics, give 0 and get no gradient.
struct Groups {
  int64_t B, C, R;
  int64_t K;
  bool across;
  double eps;
  const bool* valid;  // (B, R); null where all are

  int64_t count() const { return across ? C : B * (C / K); }
};

// Positions of x lie side by side; y is contiguous.
struct GroupsForward {
  Groups groups;
  Affine affine;
  Planes x;
  void* y;
  double* mean;  // one number for each group
  double* var;
  Pool pool;
};

struct GroupsBackward {
  Groups groups;
  Affine affine;
  Planes dy;
  Planes x;
  void* dx;
  double* dgain;  // (B, C), or (C,) across; null where nobody asks
  double* dbias;
  Pool pool;
};

}  // namespace normkit
