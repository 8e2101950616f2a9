"""Bugs in BatchNorm with and without a mask: statistics, mask, momentum, channels."""

from __future__ import annotations

from functools import partial

from tests.mutants.mutant import Mutant
from tests.mutants.selections import batch_bounds, contract, norm

_formula = partial(Mutant, file="reference/batch_norm.py")
_op = partial(Mutant, file="ops/batch_norm.py")
_functional = partial(Mutant, file="functional/batch_norm.py")
_running = partial(Mutant, file="functional/running.py")

_STANDARDIZED = (
    "    return (_real(x_CR, valid_R) - mean_C[:, None]) / (var_C[:, None] + eps).sqrt()\n"
)
_DX_GIVEN = "    dx = g / (var_C[:, None] + eps).sqrt()\n"
_BACKWARD = "standardize_backward(g, x_CR, center=True, eps=eps, measured_N=valid_R)\n"
_VARIANCE = "    var = mean_square(around, valid_R)\n"

MUTANTS: tuple[Mutant, ...] = (
    _formula(
        id="batch-norm-eps-ignored",
        family="eps ignored",
        tests=batch_bounds("whole", "float32", "tiny"),
        old="_affine(around / (var + eps).sqrt(), weight_C, bias_C)",
        new="_affine(around / var.sqrt(), weight_C, bias_C)",
    ),
    _formula(
        id="batch-norm-eps-outside",
        family="eps outside instead of inside",
        tests=batch_bounds("whole", "float32", "tiny"),
        old="_affine(around / (var + eps).sqrt(), weight_C, bias_C)",
        new="_affine(around / (var.sqrt() + eps), weight_C, bias_C)",
    ),
    _formula(
        id="batch-norm-eps-ignored-in-eval",
        family="eps ignored",
        tests=contract("modules", "equals_torch_where_the_meaning_is_the_same", "batch_norm_eval"),
        old=_STANDARDIZED,
        new="    return (_real(x_CR, valid_R) - mean_C[:, None]) / var_C[:, None].sqrt()\n",
    ),
    _formula(
        id="batch-norm-eps-ignored-in-eval-backward",
        family="eps ignored",
        tests=contract("modules", "equals_torch_where_the_meaning_is_the_same", "batch_norm_eval"),
        old=_DX_GIVEN,
        new="    dx = g / var_C[:, None].sqrt()\n",
    ),
    _formula(
        id="batch-norm-n-minus-1",
        family="n-1",
        tests=batch_bounds("whole", "float32", "unit"),
        old=_VARIANCE,
        new=(
            "    n = max(x_CR.shape[-1], 2)\n"
            "    var = mean_square(around, valid_R) * (n / (n - 1))\n"
        ),
    ),
    _formula(
        id="batch-norm-one-pass-variance",
        family="one-pass variance",
        tests=batch_bounds("whole", "float32", "offset"),
        old=_VARIANCE,
        new=(
            "    var = mean_square(_real(x_CR, valid_R), valid_R) - mean.square()\n"
            "    var = var.clamp(min=0)\n"
        ),
    ),
    _formula(
        id="batch-norm-last-position-dropped",
        family="last column dropped",
        tests=batch_bounds("whole", "float32", "unit"),
        old=_VARIANCE,
        new="    var = mean_square(around[:, :-1], None if valid_R is None else valid_R[:-1])\n",
    ),
    _formula(
        id="batch-norm-statistics-in-half",
        family="rstd in half",
        tests=batch_bounds("whole", "float32", "unit"),
        old=_VARIANCE,
        new="    var = mean_square(around, valid_R).to(torch.bfloat16).to(x_CR.dtype)\n",
    ),
    _formula(
        id="batch-norm-last-position-out-of-dgamma",
        family="last row missing in dgamma",
        tests=batch_bounds("whole", "float32", "unit"),
        old=f"    dx, x_hat = {_BACKWARD}    return dx, row_sum(dy_CR * x_hat).squeeze(-1)",
        new=(
            f"    dx, x_hat = {_BACKWARD}"
            "    return dx, row_sum((dy_CR * x_hat)[:, :-1]).squeeze(-1)"
        ),
    ),
    _formula(
        id="batch-norm-dgamma-in-half",
        family="dgamma in half",
        tests=batch_bounds("whole", "float32", "unit"),
        old=f"    dx, x_hat = {_BACKWARD}    return dx, row_sum(dy_CR * x_hat).squeeze(-1)",
        new=(
            f"    dx, x_hat = {_BACKWARD}"
            "    return dx, row_sum((dy_CR * x_hat).half()).squeeze(-1).to(dx.dtype)"
        ),
    ),
    _formula(
        id="batch-norm-mask-ignored-in-count",
        family="mask ignored in statistics",
        tests=norm("batch_norm", "masked_equals_the_gathered_computation"),
        old="device=x_CR.device) if valid_R is None else valid_R.sum()\n",
        new="device=x_CR.device)\n",
    ),
    Mutant(
        id="padded-positions-are-counted",
        family="mask ignored in statistics",
        file="reference/standardize.py",
        tests=batch_bounds("masked", "float32", "unit"),
        old="    return measured_N.sum(-1, keepdim=True).clamp(min=1)\n",
        new="    return x_MN.shape[-1]\n",
    ),
    _formula(
        id="batch-norm-mask-ignored-in-variance",
        family="mask ignored in statistics",
        tests=batch_bounds("masked", "float32", "unit"),
        old=_VARIANCE,
        new="    var = mean_square(around)\n",
    ),
    _formula(
        id="batch-norm-mask-ignored-in-mean",
        family="mask ignored in statistics",
        tests=batch_bounds("masked", "float32", "unit"),
        old="centred(_real(x_CR, valid_R), valid_R)",
        new="centred(_real(x_CR, valid_R))",
    ),
    _op(
        id="batch-norm-mask-ignored-in-range",
        family="mask ignored in statistics",
        tests=norm("extremes", "huge_padding_changes_nothing"),
        old="in_range(real_CR, self.eps, center=True)",
        new="in_range(x_CR, self.eps, center=True)",
    ),
    _formula(
        id="batch-norm-mask-ignored-in-output",
        family="mask ignored in statistics",
        tests=batch_bounds("masked", "float32", "unit"),
        old="    y = _real(_affine(around / (var + eps).sqrt(), weight_C, bias_C), valid_R)\n",
        new="    y = _affine(around / (var + eps).sqrt(), weight_C, bias_C)\n",
    ),
    _formula(
        id="batch-norm-mask-ignored-in-eval-output",
        family="mask ignored in statistics",
        tests=norm("batch_norm", "masked_equals_the_gathered_computation"),
        old="    return _real(_affine(x_hat, weight_C, bias_C), valid_R)\n",
        new="    return _affine(x_hat, weight_C, bias_C)\n",
    ),
    _formula(
        id="batch-norm-mask-ignored-in-backward-means",
        family="mask ignored in backward",
        tests=batch_bounds("masked", "float32", "unit"),
        old=_BACKWARD,
        new="standardize_backward(g, x_CR, center=True, eps=eps)\n",
    ),
    _formula(
        id="batch-norm-mask-ignored-in-dy",
        family="mask ignored in backward",
        tests=batch_bounds("masked", "float32", "unit"),
        old="    dy_CR, x_CR = _real(dy_CR, valid_R), _real(x_CR, valid_R)\n",
        new="    x_CR = _real(x_CR, valid_R)\n",
    ),
    _formula(
        id="batch-norm-mask-ignored-in-eval-backward",
        family="mask ignored in backward",
        tests=contract("derivatives", "first_and_second_derivatives", "masked_batch_norm_eval"),
        old="    dy_CR = _real(dy_CR, valid_R)\n    x_hat",
        new="    x_hat",
    ),
    Mutant(
        id="padded-positions-are-pulled",
        family="mask ignored in backward",
        tests=batch_bounds("masked", "float32", "unit"),
        file="reference/standardize.py",
        old="        pull = torch.where(measured_N, pull, 0)\n",
        new="        pass\n",
    ),
    _op(
        id="batch-norm-dy-read-as-contiguous",
        family="wrong stride of dy",
        tests=contract("forms", "strides_change_no_bit", "batch_norm_image"),
        old="        dy_CR, x_CR, valid = self._rows(dy), self._rows(x), position_rows(mask)\n",
        new=(
            "        dy = dy.as_strided(x.shape, torch.empty(x.shape).stride())\n"
            "        dy_CR, x_CR, valid = self._rows(dy), self._rows(x), position_rows(mask)\n"
        ),
    ),
    _op(
        id="batch-norm-output-in-float32",
        family="output dtype wrong",
        tests=contract("forms", "any_pair_of_dtypes_returns_the_input_dtype"),
        old="from_channel_rows(y_CR.to(x.dtype), x, self.channel_axis)",
        new="from_channel_rows(y_CR.float(), x, self.channel_axis)",
    ),
    Mutant(
        id="batch-norm-mean-not-scaled-back",
        family="range",
        tests=norm("extremes", "running_statistics_of_huge_float64_channels"),
        file="ops/precision.py",
        old="        return mean_M / scale + offset, var_M / scale / scale",
        new="        return mean_M + offset, var_M / scale / scale",
    ),
    Mutant(
        id="batch-norm-variance-not-scaled-back",
        family="range",
        tests=norm("extremes", "running_statistics_of_huge_float64_channels"),
        file="ops/precision.py",
        old="        return mean_M / scale + offset, var_M / scale / scale",
        new="        return mean_M / scale + offset, var_M / scale",
    ),
    Mutant(
        id="eps-lost-beside-a-huge-constant",
        family="range",
        tests=norm("extremes", "the_gradient_of_a_constant_float64_row_is_that_of_eps"),
        file="ops/precision.py",
        old="    if center:\n",
        new="    if False:\n",
    ),
    Mutant(
        id="offset-of-a-huge-constant-lost",
        family="range",
        tests=norm("extremes", "statistics_of_a_huge_constant_channel"),
        file="ops/precision.py",
        old="mean_M / scale + offset, var_M",
        new="mean_M / scale, var_M",
    ),
    Mutant(
        id="channels-last-axis",
        family="channel axis wrong",
        tests=contract("modules", "equals_torch_where_the_meaning_is_the_same", "batch_norm_image"),
        file="ops/rows.py",
        old="    first = x.movedim(channel_axis, 0)\n",
        new="    first = x.movedim(-1, 0)\n",
    ),
    Mutant(
        id="channels-come-back-elsewhere",
        family="channel axis wrong",
        tests=contract("modules", "equals_torch_where_the_meaning_is_the_same", "batch_norm_image"),
        file="ops/rows.py",
        old="movedim(0, channel_axis)",
        new="movedim(0, -1).reshape(x.shape)",
    ),
    _functional(
        id="batch-norm-eps-of-another-framework",
        family="eps of the wrong value",
        tests=batch_bounds("whole", "float32", "tiny"),
        old="    formula = ops.BatchNormFormula(axis, float(eps),",
        new="    formula = ops.BatchNormFormula(axis, 1e-3,",
    ),
    _running(
        id="running-variance-biased",
        family="running variance biased",
        tests=contract("modules", "equals_torch_where_the_meaning_is_the_same", "batch_norm"),
        old="    return var * (wide_n / (wide_n - 1).clamp(min=1))\n",
        new="    return var\n",
    ),
    _running(
        id="momentum-swapped",
        family="momentum swapped",
        tests=contract("modules", "equals_torch_where_the_meaning_is_the_same", "batch_norm"),
        old="    after = (1 - momentum) * wide + momentum * new.detach()\n",
        new="    after = momentum * wide + (1 - momentum) * new.detach()\n",
    ),
    _running(
        id="padding-alone-moves-the-statistics",
        family="mask ignored in statistics",
        tests=norm("batch_norm", "all_padding_touches_nothing"),
        old="    return torch.where(defined, after, wide).to(old.dtype)\n",
        new="    return after.to(old.dtype)\n",
    ),
    _functional(
        id="one-position-moves-the-variance",
        family="running variance biased",
        tests=norm("batch_norm", "one_real_position_gives_the_bias_and_keeps_the_variance"),
        old="moved(running_var, unbiased(var, n), momentum, n > 1)",
        new="moved(running_var, unbiased(var, n), momentum, n > 0)",
    ),
)
