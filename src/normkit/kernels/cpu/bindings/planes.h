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

// What lies before the axis is samples, what lies after it positions. Positions lie side by side;
// a tensor where they do not is copied.
PlanesOf planes_of(const Tensor& t, int64_t axis);

// The same for a gradient, which must have the shape and dtype of `like`.
PlanesOf planes_like(const Tensor& t, const PlanesOf& like, int64_t axis);

}  // namespace normkit
