// group_norm and batch_norm with the statistics of x: tensors in, tensors out.
#include "planes.h"

namespace normkit {
namespace {

// x is (B, C, *). `groups` of channels of a sample; 0: each channel of all samples.
struct Given {
  PlanesOf x;
  Tensor mask;
  Groups groups;

  Given(const Tensor& t, const Maybe& valid, int64_t count, double eps)
      : x(planes_of(t, 1)),
        mask(valid ? torch::stable::contiguous(*valid) : t),
        groups{x.B, x.C, x.R, count > 0 && x.C > 0 ? x.C / count : 1, count == 0, eps, nullptr} {
    STD_TORCH_CHECK(!valid || valid->numel() == x.B * x.R,
                    "normkit: a mask must have one value for each position of each sample");
    if (valid) groups.valid = static_cast<const bool*>(mask.const_data_ptr());
  }
};

std::tuple<Tensor, Tensor, Tensor> forward(const Tensor& x, const Maybe& weight, const Maybe& bias,
                                           const Maybe& valid, int64_t count, double eps) {
  const Given given(x, valid, count, eps);
  const Groups& groups = given.groups;
  const Dtype dtype = given.x.planes.dtype;
  const Tensor y = empty(x.sizes(), dtype);
  const int64_t sizes[2] = {groups.across ? groups.C : groups.B, groups.C / groups.K};
  const torch::headeronly::IntHeaderOnlyArrayRef shape(sizes, groups.across ? 1 : 2);
  const Tensor mean = empty(shape, Dtype::float64), var = empty(shape, Dtype::float64);
  const Parameter gain(weight, groups.C, dtype, false), shift(bias, groups.C, dtype, false);
  table().groups_forward({groups, {gain.data(), shift.data(), 1}, given.x.planes,
                          y.mutable_data_ptr(), static_cast<double*>(mean.mutable_data_ptr()),
                          static_cast<double*>(var.mutable_data_ptr()), pool()});
  return {y, mean, var};
}

// The sum over samples of shares (B, C), in order.
void add_up(const std::vector<double>& shares, double* sums, const Groups& groups) {
  for (int64_t b = 0; b < (groups.across ? 1 : groups.B); ++b) {
    for (int64_t c = 0; c < groups.C; ++c) sums[c] += shares[b * groups.C + c];
  }
}

// `needed`: bit 0 dx, 1 dweight, 2 dbias.
std::tuple<Tensor, Tensor, Tensor> backward(const Tensor& dy, const Tensor& x, const Maybe& weight,
                                            const Maybe& bias, const Maybe& valid, int64_t count,
                                            double eps, int64_t needed) {
  const Given given(x, valid, count, eps);
  const Groups& groups = given.groups;
  const PlanesOf dys = planes_like(dy, given.x, 1);
  const Dtype dtype = given.x.planes.dtype;
  const Tensor dx = needed & 1 ? empty(x.sizes(), dtype) : nothing(dtype);
  ParameterGradient dweight(weight, needed & 2), dbias(bias, needed & 4);
  const Parameter gain(weight, groups.C, dtype, false);
  const int64_t rows = groups.across ? 1 : groups.B;
  std::vector<double> gains(dweight.sums() == nullptr ? 0 : rows * groups.C);
  std::vector<double> shifts(dbias.sums() == nullptr ? 0 : rows * groups.C);
  table().groups_backward({groups, {gain.data(), nullptr, 1}, dys.planes, given.x.planes,
                           needed & 1 ? dx.mutable_data_ptr() : nullptr,
                           gains.empty() ? nullptr : gains.data(),
                           shifts.empty() ? nullptr : shifts.data(), pool()});
  if (!gains.empty()) add_up(gains, dweight.sums(), groups);
  if (!shifts.empty()) add_up(shifts, dbias.sums(), groups);
  return {dx, dweight.result(), dbias.result()};
}

}  // namespace
}  // namespace normkit

STABLE_TORCH_LIBRARY_FRAGMENT(normkit_cpu, m) {
  m.def("group_norm(Tensor x, Tensor? weight, Tensor? bias, Tensor? valid, int groups, float eps)"
        " -> (Tensor, Tensor, Tensor)");
  m.def("group_norm_backward(Tensor dy, Tensor x, Tensor? weight, Tensor? bias, Tensor? valid,"
        " int groups, float eps, int needed) -> (Tensor, Tensor, Tensor)");
}

STABLE_TORCH_LIBRARY_IMPL(normkit_cpu, CPU, m) {
  m.impl("group_norm", TORCH_BOX(&normkit::forward));
  m.impl("group_norm_backward", TORCH_BOX(&normkit::backward));
}
