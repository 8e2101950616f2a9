"""Bugs in LayerNorm and RMSNorm: gain, rounding, dtypes, fraction, strides of dy."""

from __future__ import annotations

from functools import partial

from tests.mutants.mutant import Mutant
from tests.mutants.selections import bounds, contract, norm

_gain = partial(Mutant, file="reference/gain.py")
_layer_norm = partial(Mutant, file="reference/layer_norm.py")
_rows = partial(Mutant, file="ops/row_formula.py")
_rms_norm = partial(Mutant, file="reference/rms_norm.py")
_rms_norm_op = partial(Mutant, file="ops/rms_norm.py")
_functional = partial(Mutant, file="functional/rms_norm.py")

_G = "    g = dy_MN if gain is None else dy_MN * gain\n"

MUTANTS: tuple[Mutant, ...] = (
    _gain(
        id="one-plus-w-in-half",
        family="1+w in half",
        tests=bounds("rms_zero_centred", "float32", "unit"),
        old="    return 1 + weight if zero_centred and weight is not None else weight\n",
        new=(
            "    import torch\n\n"
            "    if not zero_centred or weight is None:\n"
            "        return weight\n"
            "    return (1 + weight.to(torch.bfloat16)).to(weight.dtype)\n"
        ),
    ),
    _gain(
        id="bias-ignored",
        family="bias ignored",
        tests=bounds("layer_norm", "float32", "unit"),
        old="    return y if bias is None else y + bias\n",
        new="    return y\n",
    ),
    _layer_norm(
        id="layer-norm-gain-lost-in-backward",
        family="gain lost in backward",
        tests=bounds("layer_norm", "float32", "unit"),
        old=_G,
        new="    g = dy_MN\n",
    ),
    _layer_norm(
        id="layer-norm-one-plus-w-lost-in-backward",
        family="gain lost in backward",
        tests=bounds("ln_zero_centred", "float32", "unit"),
        old="    gain = factor(weight_N, zero_centred=zero_centred)\n",
        new="    gain = weight_N\n",
    ),
    _layer_norm(
        id="layer-norm-dgamma-before-normalising",
        family="dgamma of the wrong factor",
        tests=bounds("layer_norm", "float32", "unit"),
        old="column_sum(dy_MN * x_hat)",
        new="column_sum(dy_MN * x_MN)",
    ),
    _layer_norm(
        id="layer-norm-eps-place-lost-in-backward",
        family="eps outside instead of inside",
        tests=bounds("ln_outside", "float32", "tiny"),
        old="dx, x_hat = standardize_backward(g, x_MN, center=True, eps=eps, eps_place=eps_place)",
        new="dx, x_hat = standardize_backward(g, x_MN, center=True, eps=eps)",
    ),
    _rows(
        id="output-in-float32",
        family="output dtype wrong",
        tests=contract("forms", "any_pair_of_dtypes_returns_the_input_dtype"),
        old="self.rows_forward(*t).to(dtype)",
        new="self.rows_forward(*t).float()",
    ),
    _rows(
        id="dy-read-as-contiguous",
        family="wrong stride of dy",
        tests=contract("forms", "strides_change_no_bit", "layer_norm"),
        old="        tensors, dy_MN = self._as_rows(x, *rest), token_rows(dy, self.axes)\n",
        new=(
            "        dy = dy.as_strided(x.shape, torch.empty(x.shape).stride())\n"
            "        tensors, dy_MN = self._as_rows(x, *rest), token_rows(dy, self.axes)\n"
        ),
    ),
    _rows(
        id="dgamma-rounded-like-x",
        family="dgamma in half",
        tests=norm("reports_numerics", "parameter_gradients_do_not_stop_growing"),
        old="        return in_order(parts).reshape(tensor.shape)\n",
        new="        return in_order(parts).bfloat16().reshape(tensor.shape)\n",
    ),
    Mutant(
        id="dbeta-summed-like-dy",
        file="ops/layer_norm.py",
        family="dgamma in half",
        tests=norm("reports_numerics", "parameter_gradients_do_not_stop_growing"),
        old="        return rows.gradient(dx), dweight, dbias\n",
        new="        return rows.gradient(dx), dweight, sum(list(dy_MN))\n",
    ),
    _rms_norm(
        id="rms-norm-gain-lost-in-backward",
        family="gain lost in backward",
        tests=bounds("rms_norm", "float32", "unit"),
        old=_G,
        new="    g = dy_MN\n",
    ),
    _rms_norm(
        id="rms-norm-one-plus-w-lost-in-backward",
        family="gain lost in backward",
        tests=bounds("rms_zero_centred", "float32", "unit"),
        old="    gain = factor(weight_N, zero_centred=zero_centred)\n",
        new="    gain = weight_N\n",
    ),
    _rms_norm(
        id="rms-norm-centred",
        family="centred by mistake",
        tests=bounds("rms_norm", "float32", "unit"),
        old="standardize(x_MN, center=False,",
        new="standardize(x_MN, center=True,",
    ),
    _rms_norm(
        id="rms-norm-centred-in-backward",
        family="centred by mistake",
        tests=bounds("rms_norm", "float32", "unit"),
        old="        g, x_MN, center=False,",
        new="        g, x_MN, center=True,",
    ),
    _rms_norm(
        id="rms-norm-rounded-after-gain",
        family="rounding order swapped",
        tests=norm("rms_norm", "rounding_as_llama_and_as_gemma"),
        old="    return gained(rounded(x_hat, round_to), weight_N, bias_N, zero_centred)\n",
        new="    return rounded(gained(x_hat, weight_N, bias_N, zero_centred), round_to)\n",
    ),
    _rms_norm(
        id="rms-norm-dgamma-of-the-unrounded",
        family="rounding order swapped",
        tests=norm("options", "gradient_of_the_gain_sees_the_value_that_it_multiplied"),
        old="column_sum(dy_MN * rounded(x_hat, round_to))",
        new="column_sum(dy_MN * x_hat)",
    ),
    _rms_norm(
        id="rms-norm-one-feature-too-many",
        family="fraction ignored",
        tests=bounds("rms_fraction", "float32", "unit"),
        old="    return torch.arange(x_MN.shape[-1], device=x_MN.device) < measured\n",
        new="    return torch.arange(x_MN.shape[-1], device=x_MN.device) <= measured\n",
    ),
    _rms_norm(
        id="rms-norm-fraction-lost-in-backward",
        family="fraction ignored",
        tests=bounds("rms_fraction", "float32", "unit"),
        old="eps_place=eps_place, measured_N=first\n    )\n",
        new="eps_place=eps_place\n    )\n",
    ),
    Mutant(
        id="unmeasured-features-are-pulled",
        family="fraction ignored",
        tests=bounds("rms_fraction", "float32", "unit"),
        file="reference/standardize.py",
        old="        pull = torch.where(measured_N, pull, 0)\n",
        new="        pass\n",
    ),
    Mutant(
        id="fraction-counts-upwards",
        family="fraction ignored",
        tests=bounds("rms_fraction", "float32", "unit"),
        file="ops/check.py",
        old="    count = int(fraction * width)\n",
        new="    count = math.ceil(fraction * width)\n",
    ),
    _rms_norm_op(
        id="rms-norm-rounding-swapped",
        family="rounding order swapped",
        tests=norm("rms_norm", "rounding_as_llama_and_as_gemma"),
        old='return x.dtype if self.rounding == "before_gain"',
        new='return x.dtype if self.rounding != "before_gain"',
    ),
    _rms_norm_op(
        id="rms-norm-output-in-float32",
        family="output dtype wrong",
        tests=contract("forms", "any_pair_of_dtypes_returns_the_input_dtype"),
        old=(
            '        if weight is None or self.output_dtype == "input":\n'
            "            return x.dtype\n"
        ),
        new=(
            '        if weight is None or self.output_dtype == "input":\n'
            "            return torch.float32\n"
        ),
    ),
    _rms_norm_op(
        id="rms-norm-weight-dtype-ignored",
        family="output dtype wrong",
        tests=norm("rms_norm", "output_dtypes"),
        old="            return weight.dtype\n",
        new="            return x.dtype\n",
    ),
    _rms_norm_op(
        id="rms-norm-dtypes-not-promoted",
        family="output dtype wrong",
        tests=norm("options", "promoted_dtype_is_that_of_a_product"),
        old="        return torch.promote_types(x.dtype, weight.dtype)\n",
        new="        return weight.dtype\n",
    ),
    Mutant(
        file="functional/layer_norm.py",
        id="layer-norm-eps-ten-times",
        family="eps of the wrong value",
        tests=bounds("layer_norm", "float32", "tiny"),
        old="ops.LayerNormFormula(len(shape), float(eps), eps_place, zero_centred,",
        new="ops.LayerNormFormula(len(shape), 10 * float(eps), eps_place, zero_centred,",
    ),
    _functional(
        id="rms-norm-eps-ten-times",
        family="eps of the wrong value",
        tests=bounds("rms_norm", "float32", "tiny"),
        old="default_eps(x.dtype) if eps is None else float(eps),",
        new="default_eps(x.dtype) if eps is None else 10 * float(eps),",
    ),
    _functional(
        id="rms-norm-default-eps-of-the-input",
        family="eps of the wrong value",
        tests=norm("reports_numerics", "default_eps_of_rms_norm_is_that_of_float32"),
        old="torch.finfo(torch.float64 if dtype == torch.float64 else torch.float32).eps",
        new="torch.finfo(dtype).eps",
    ),
    _functional(
        id="rms-norm-default-eps-always-float32",
        family="eps of the wrong value",
        tests=norm("rms_norm", "eps_none_computes_as_torch_and_stays_none"),
        old="torch.finfo(torch.float64 if dtype == torch.float64 else torch.float32).eps",
        new="torch.finfo(torch.float32).eps",
    ),
    _functional(
        id="rms-norm-fraction-ignored",
        family="fraction ignored",
        tests=bounds("rms_fraction", "float32", "unit"),
        old="        measured_features(who, shape, fraction),\n",
        new="        None,\n",
    ),
)
