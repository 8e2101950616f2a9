"""Bugs in the C++ sources of layer_norm and rms_norm."""

from __future__ import annotations

from functools import partial

from tests.mutants.mutant import Mutant
from tests.mutants.selections import bounds, contract, norm

_common = "kernels/cpu/common"
_compute = "kernels/cpu/compute"
_row_kernel = partial(Mutant, units=("norm_forward", "norm_backward"))
_moments = partial(_row_kernel, file=f"{_common}/moments.h")
_sums = partial(_row_kernel, file=f"{_common}/sums.h")
_backward = partial(Mutant, file=f"{_common}/backward.h", units=("norm_backward",))
_forward = partial(Mutant, file=f"{_common}/forward.h", units=("norm_forward",))
_rescue = partial(_row_kernel, file=f"{_common}/rescue.h")
_rows = partial(_row_kernel, file=f"{_common}/rows.h")
_shares = partial(Mutant, file=f"{_compute}/parameter_sums.h")
_binding = partial(Mutant, file="kernels/cpu/bindings/norm.cpp")
_options = partial(Mutant, file="kernels/cpu/bindings/norm.h")

_HALVES = ("bfloat16", "float16", "float32")


def kernels(test: str, case: str = "") -> tuple[str, ...]:
    """One test of the kernels, or one case of it."""
    which = f"[{case}]" if case else ""
    return norm("kernels", test + which)


def reports(test: str) -> tuple[str, ...]:
    """One case of the public reports."""
    return norm("reports_numerics", test)


_BESIDE = "31-torch.float32-layer_norm"
_BLOCKS = kernels("threads_change_no_bit", "(700, 129)-torch.float32-layer_norm")

MUTANTS: tuple[Mutant, ...] = (
    _moments(
        id="kernel-eps-ignored",
        family="eps ignored",
        tests=bounds("layer_norm", "float32", "tiny"),
        old="return {std::sqrt(variance + eps), 1.0};",
        new="return {std::sqrt(variance), 1.0};",
    ),
    _moments(
        id="kernel-eps-outside",
        family="eps outside instead of inside",
        tests=bounds("rms_norm", "float32", "tiny"),
        old="return {std::sqrt(variance + eps), 1.0};",
        new="return {std::sqrt(variance) + eps, 1.0};",
    ),
    _moments(
        id="kernel-eps-as-float",
        family="eps of the wrong value",
        tests=bounds("layer_norm", "float64", "tiny"),
        dtypes=("float64",),
        old="divisor(variance, norm.eps, norm.eps_place)",
        new="divisor(variance, double(float(norm.eps)), norm.eps_place)",
    ),
    _moments(
        id="kernel-clamp-has-a-slope",
        family="eps place in backward",
        tests=contract("derivatives", "first_and_second_derivatives", "layer_norm_clamp"),
        dtypes=("float64",),
        old="spread >= eps ? 1.0 : 0.0}",
        new="1.0}",
    ),
    _moments(
        id="kernel-outside-without-its-pull",
        family="eps place in backward",
        tests=bounds("rms_outside", "float32", "tiny"),
        old="spread > 0 ? (spread + eps) / spread : 0.0",
        new="1.0",
    ),
    _moments(
        id="kernel-n-minus-1",
        family="n-1",
        tests=bounds("layer_norm", "float32", "unit"),
        old="const double variance = sums[1] / N - rest * rest;",
        new="const double variance = sums[1] / (N > 1 ? N - 1 : 1) - rest * rest;",
    ),
    _moments(
        id="kernel-one-pass-variance",
        family="one-pass variance",
        tests=bounds("layer_norm", "float32", "offset"),
        old="    m.mean = C(sum[0] / N);\n",
        new="    m.mean = C(0);\n",
    ),
    _moments(
        id="kernel-rest-of-the-mean-dropped",
        family="rest of the mean dropped",
        tests=reports("a_mean_far_above_the_spread[1000000.0-layer_norm_cpu]"),
        old="    if constexpr (Center) x = (x - mean) - rest;\n",
        new="    if constexpr (Center) x = x - mean;\n",
    ),
    _moments(
        id="kernel-padded-lanes-counted",
        family="padded lanes counted",
        tests=reports("widths_that_are_no_power_of_two[100-layer_norm_cpu]"),
        old="const Vec<C> d = only(load<C>(x + i, n) - mean, n);",
        new="const Vec<C> d = load<C>(x + i, n) - mean;",
    ),
    _moments(
        id="kernel-rstd-in-half",
        family="rstd in half",
        tests=reports("nothing_is_saved_in_half_precision[torch.bfloat16-layer_norm_cpu]"),
        dtypes=_HALVES,
        old="  m.inverse = C(1.0 / by.value);\n",
        new="  m.inverse = C(widened(narrowed<BFloat16>(1.0 / by.value)));\n",
    ),
    _moments(
        id="kernel-rescue-never-taken",
        family="rescue never taken",
        tests=bounds("rms_norm", "float32", "huge"),
        old="  m.in_range = std::isfinite(variance) && squares_well(by.value * by.value, C());\n",
        new="  m.in_range = true;\n",
    ),
    _moments(
        id="kernel-eps-hides-an-overflow",
        family="rescue never taken",
        tests=norm("extremes", "a_constant_float64_row_gives_exactly_the_bias[1e+308-clamp]"),
        dtypes=("float64",),
        old="std::isfinite(variance) && squares_well",
        new="squares_well",
    ),
    _rescue(
        id="kernel-rescued-eps-not-scaled",
        family="eps of the wrong value",
        tests=bounds("layer_norm", "float32", "huge"),
        old="inside ? norm.eps * r.scale * r.scale : norm.eps * r.scale;",
        new="norm.eps;",
    ),
    _backward(
        id="kernel-rescued-gradient-not-scaled",
        family="rescue never taken",
        tests=bounds("rms_norm", "float32", "huge"),
        old="double value = (g(i) - pull) / r.by * r.scale;",
        new="double value = (g(i) - pull) / r.by;",
    ),
    _moments(
        id="kernel-measured-ignored",
        family="fraction ignored",
        tests=bounds("rms_fraction", "float32", "unit"),
        old="  const int64_t N = norm.measured;\n",
        new="  const int64_t N = norm.N;\n",
    ),
    _backward(
        id="kernel-unmeasured-features-are-pulled",
        family="fraction ignored",
        tests=bounds("rms_fraction", "float32", "unit"),
        old="    part(measured, end, Vec<C>::all(0));\n",
        new="    part(measured, end, Vec<C>::all(pull.slope));\n",
    ),
    _options(
        id="kernel-fraction-lost-on-the-way",
        family="fraction ignored",
        tests=bounds("rms_fraction", "float32", "unit"),
        old="return bits >> 8;",
        new="return 0;",
    ),
    _sums(
        id="kernel-last-column-dropped",
        family="last column dropped",
        tests=bounds("rms_norm", "float32", "unit"),
        old="  if (i < end) add(lanes[0], i, int(end - i));\n",
        new="  if (i + 1 < end) add(lanes[0], i, int(end - i - 1));\n",
    ),
    _sums(
        id="kernel-tail-not-written",
        family="last column dropped",
        tests=bounds("rms_norm", "float32", "unit"),
        old="  if (i < end) step(i, int(end - i));\n",
        new="",
    ),
    _sums(
        id="kernel-tail-unmasked",
        family="tail rows unmasked",
        tests=kernels("what_lies_beside_a_tensor_is_neither_read_nor_written", _BESIDE),
        old="  if (i < end) add(lanes[0], i, int(end - i));\n",
        new="  if (i < end) add(lanes[0], i, Full{});\n",
    ),
    _sums(
        id="kernel-writes-past-the-end",
        family="tail rows unmasked",
        tests=norm("kernel_isas", "within_the_bound_and_the_memory[baseline]"),
        dtypes=("bfloat16", "float16", "float32", "float64"),
        old="  if (i < end) step(i, int(end - i));\n",
        new="  if (i < end) step(i, Full{});\n",
    ),
    _sums(
        id="kernel-long-rows-lose-a-chunk",
        family="last column dropped",
        tests=kernels("one_long_row", "torch.float32-rms_norm"),
        old="for (int64_t c = 0; c * kChunk < N; ++c) {",
        new="for (int64_t c = 1; c * kChunk < N; ++c) {",
    ),
    _backward(
        id="kernel-mean-of-g-dropped",
        family="projection term dropped",
        tests=bounds("layer_norm", "float32", "unit"),
        old="      if (Center) g = g - mean;\n",
        new="",
    ),
    _backward(
        id="kernel-projection-on-x-dropped",
        family="projection term dropped",
        tests=bounds("rms_norm", "float32", "unit"),
        old="Vec<C> value = (g - x_hat * slope) * inverse;",
        new="Vec<C> value = g * inverse;",
    ),
    _backward(
        id="kernel-tail-times-infinity",
        family="padded lanes counted",
        tests=bounds("layer_norm", "float32", "huge"),
        old="const Vec<C> x_hat = only(standardise(load<C>(x + i, n)), n);",
        new="const Vec<C> x_hat = standardise(load<C>(x + i, n));",
    ),
    _backward(
        id="kernel-dgamma-of-the-unrounded",
        family="rounding order swapped",
        tests=norm(
            "options",
            "gradient_of_the_gain_sees_the_value_that_it_multiplied[torch.bfloat16-cpu]",
        ),
        dtypes=_HALVES,
        old="const Vec<C> kept = round ? rounded<C, T>(x_hat) : x_hat;",
        new="const Vec<C> kept = x_hat;",
    ),
    _backward(
        id="kernel-gain-lost-in-backward",
        family="gain lost in backward",
        tests=bounds("rms_norm", "float32", "unit"),
        old="    if (by.gain != nullptr) g = g * load<C>(by.gain + i, n);\n    to.sum[0]",
        new="    to.sum[0]",
    ),
    _forward(
        id="kernel-rounded-after-the-gain",
        family="rounding order swapped",
        tests=norm("rms_norm", "rounding_as_llama_and_as_gemma[torch.bfloat16]"),
        dtypes=_HALVES,
        old="      if (round) value = rounded<C, T>(value);\n",
        new="",
    ),
    _forward(
        id="kernel-bias-ignored",
        family="bias ignored",
        tests=bounds("layer_norm", "float32", "unit"),
        old="      if (by.bias != nullptr) value = value + load<C>(by.bias + i, n);\n",
        new="",
    ),
    _shares(
        id="kernel-last-row-missing-in-dgamma",
        family="last row missing in dgamma",
        tests=bounds("layer_norm", "float32", "unit"),
        old="first + smaller(rows, (b + 1) * kRows),",
        new="first + smaller(rows - 1, (b + 1) * kRows),",
    ),
    _shares(
        id="kernel-dgamma-without-blocks",
        family="dgamma in half",
        tests=kernels("small_gradients_after_a_large_one_are_not_lost", "layer_norm"),
        old="constexpr int64_t kRows = 16;",
        new="constexpr int64_t kRows = int64_t(1) << 40;",
    ),
    _shares(
        id="kernel-dgamma-of-a-block-in-half",
        family="dgamma in half",
        tests=reports(
            "parameter_gradients_of_a_mean_loss_and_of_one_sign[torch.bfloat16-layer_norm_cpu]"
        ),
        dtypes=_HALVES,
        old="    store(sum + i, load<double>(sum + i, n) + load<double>(values + i, n), n);\n",
        new=(
            "    double part[8] = {};\n"
            "    (load<double>(sum + i, n) + load<double>(values + i, n)).store(part);\n"
            "    for (double& p : part) p = widened(narrowed<BFloat16>(p));\n"
            "    store(sum + i, Vec<double>::load(part), n);\n"
        ),
    ),
    _shares(
        id="kernel-order-of-sums-by-threads",
        family="threads change the order of sums",
        tests=_BLOCKS,
        old="  const int64_t blocks = parts(rows, kRows);\n",
        new="  const int64_t blocks = parts(rows, kRows * call.pool.threads);\n",
    ),
    _rows(
        id="kernel-int32-offset",
        family="int32 offset",
        tests=kernels("offsets_beyond_32_bits", "layer_norm"),
        dtypes=_HALVES,
        old="    if (rows.axes > 0) offset += m * rows.strides[0];\n",
        new="    if (rows.axes > 0) offset += int32_t(m * rows.strides[0]);\n",
    ),
    _rows(
        id="kernel-step-ignored",
        family="wrong stride of dy",
        tests=bounds("layer_norm", "float32", "strided"),
        old="packed[i] = row[i * rows.step];",
        new="packed[i] = row[i];",
    ),
    _binding(
        id="kernel-dy-read-with-the-strides-of-x",
        family="wrong stride of dy",
        tests=kernels("expanded_tensors_are_read_in_place", "layer_norm"),
        old="    call.dgain = dweight.sums();\n",
        new=(
            "    call.dgain = dweight.sums();\n"
            "    call.dy.step = rows.rows.step;\n"
            "    call.dy.strides[0] = rows.width;\n"
        ),
    ),
    _binding(
        id="kernel-dy-overwritten",
        family="dy overwritten",
        tests=kernels("what_lies_beside_a_tensor_is_neither_read_nor_written", _BESIDE),
        old="  const Tensor dx = needed & 1 ? empty(x.sizes(), dtype) : nothing(dtype);\n",
        new="  const Tensor dx = dy;\n",
    ),
    _binding(
        id="kernel-output-in-float32",
        family="output dtype wrong",
        tests=bounds("layer_norm", "bfloat16", "unit"),
        dtypes=_HALVES,
        old="empty(x.sizes(), flags.float32_output() ? Dtype::float32 : dtype)",
        new="empty(x.sizes(), Dtype::float32)",
    ),
    Mutant(
        id="kernel-one-plus-w-in-half",
        family="1+w in half",
        file=f"{_compute}/convert.cpp",
        tests=bounds("rms_zero_centred", "float32", "unit"),
        old="    store(out + i, load<C>(from + i, n) + one, n);\n",
        new=(
            "    C sum[32] = {};\n"
            "    store(sum, load<C>(from + i, n) + one, n);\n"
            "    for (C& s : sum) s = widened(narrowed<BFloat16>(s));\n"
            "    store(out + i, Vec<C>::load(sum), n);\n"
        ),
    ),
    Mutant(
        id="kernel-eps-of-the-flags",
        family="eps place",
        file="ops/row_kernel.py",
        kernels=True,
        tests=bounds("ln_outside", "float32", "tiny"),
        old="        EPS_PLACES.index(eps_place)\n",
        new="        EPS_PLACES.index('inside')\n",
    ),
)
