// Tensors of channels: (B, C, R) for samples, channels and positions, at any strides.
#pragma once
#include "norm.h"

namespace normkit {

// Element (b, c, r) lies at data[b * batch + c * channel + r * position].
struct Planes {
  const void* data;
  Dtype dtype;
  int64_t batch, channel, position;
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

}  // namespace normkit
