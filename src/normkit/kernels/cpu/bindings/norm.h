// What the bindings of the norms over rows share: options, parameters, gradients of parameters.
#pragma once
#include <vector>

#include "tensor.h"

namespace normkit {

using Maybe = std::optional<Tensor>;

// The options of a norm as one number (ops/cpu_flags.py): bits 0-1 where eps stands, 2 the gain is
// 1 + weight, 3 x_hat is rounded before the gain, 4 y is float32; from bit 8 on how many elements
// of a row are measured, 0 for all.
struct Flags {
  int64_t bits;

  EpsPlace eps_place() const { return EpsPlace(bits & 3); }
  bool zero_centred() const { return bits & 4; }
  bool round_before_gain() const { return bits & 8; }
  bool float32_output() const { return bits & 16; }
  int64_t measured() const { return bits >> 8; }
};

inline Norm norm_of(const RowsOf& x, bool center, double eps, Flags flags) {
  const int64_t measured = flags.measured() > 0 ? flags.measured() : x.width;
  return {x.count, x.width, center, flags.eps_place(), eps, flags.round_before_gain(), measured};
}

// A weight or bias in the compute type: the tensor itself where it is so already, or a copy.
class Parameter {
 public:
  Parameter(const Maybe& t, int64_t count, Dtype x_dtype, bool plus_one);

  const void* data() const { return data_; }

 private:
  Tensor owner_;
  const void* data_ = nullptr;
  std::vector<double> copy_;
};

// The gradient of a weight or bias: summed in float64, handed out in its dtype.
class ParameterGradient {
 public:
  ParameterGradient(const Maybe& t, bool needed);

  double* sums() { return needed_ ? sums_.data() : nullptr; }
  Tensor result();  // an empty tensor where it was not needed

 private:
  bool needed_;
  Tensor result_;
  std::vector<double> sums_;
};

Tensor nothing(Dtype dtype);

// What every forward call over rows is asked, and every backward call; the rest is added to it.
Forward forward_of(const RowsOf& x, const Norm& norm, const Affine& affine, const Tensor& y);
Backward backward_of(const RowsOf& dy, const RowsOf& x, const Norm& norm, const Affine& affine,
                     const Tensor& dx);  // dx may be `nothing`

}  // namespace normkit
