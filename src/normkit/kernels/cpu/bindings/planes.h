// Tensors with a channel axis, as the compute code wants them.
#pragma once
#include "norm.h"

#include "../common/planes.h"

namespace normkit {

struct PlanesOf {
  Tensor owner;  // keeps the memory alive
  Planes planes;
  int64_t B, C, R;

  int64_t numel() const { return B * C * R; }
};

// What lies before the axis is samples, what lies after it positions. Positions lie side by side,
// or channels do: `channels_last` says which; a tensor where that is not so is copied.
PlanesOf planes_of(const Tensor& t, int64_t axis, bool channels_last);

}  // namespace normkit
