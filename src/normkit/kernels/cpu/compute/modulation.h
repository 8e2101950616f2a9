// The gain and bias of each row, also where they come as rows of other tensors.
#pragma once
#include "wide_rows.h"

#include "../common/forward.h"

NORMKIT_BEGIN

// Gain and bias of row m. Those of a modulation are kept until rows of another group come.
template <class C>
struct Gains {
  const Affine& affine;
  const Norm& norm;
  Scratch<C> memory{affine.modulation == nullptr ? 0 : 2 * norm.N};
  mutable int64_t group = -1;

  Gains(const Affine& affine, const Norm& norm) : affine(affine), norm(norm) {}

  Gain<C> operator()(int64_t m) const {
    if (affine.modulation == nullptr) return gain_of<C>(affine, norm, m);
    const int64_t wanted = m / (norm.M / affine.groups);
    C* bias = affine.modulation->shift.data == nullptr ? nullptr : memory.data + norm.N;
    if (wanted != group) fill(wanted, bias);
    group = wanted;
    return {memory.data, bias};
  }

  NORMKIT_ONCE void fill(int64_t wanted, C* bias) const {
    const Modulation& by = *affine.modulation;
    widen(only_row(by.scale, wanted), norm.N, true, kCompute<C>, memory.data);
    if (bias != nullptr) {
      widen(only_row(by.shift, wanted), norm.N, false, kCompute<C>, bias);
    }
  }
};

NORMKIT_END
