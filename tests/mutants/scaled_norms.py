"""Bugs in ScaleNorm, QK-norm, DynamicTanh and DynamicErf: eps beside a length, heads, slopes."""

from __future__ import annotations

from functools import partial

from tests.mutants.mutant import Mutant
from tests.mutants.selections import contract, norm

_scale = partial(Mutant, file="reference/scale_norm.py")
_tanh = partial(Mutant, file="reference/dynamic_tanh.py")
_erf = partial(Mutant, file="reference/dynamic_erf.py")
_squash = partial(Mutant, file="reference/squash.py")
_qk = partial(Mutant, file="functional/qk_norm.py")
_qk_layer = partial(Mutant, file="layers/qk_norm.py")

_EPS = '    return eps / width if eps_place == "inside" else eps / math.sqrt(width)\n'


def _cell(name: str, which: str) -> tuple[str, ...]:
    """One cell of a table of bounds, over options, float32 and one regime."""
    return (f"tests/norms/test_{name}.py::test_bound[{which}]",)


MUTANTS: tuple[Mutant, ...] = (
    _scale(
        id="scale-norm-eps-beside-rms",
        family="eps of the wrong value",
        tests=_cell("scale_norm", "inside-1e-05-torch.float32-tiny"),
        old=_EPS,
        new="    return eps\n",
    ),
    _scale(
        id="scale-norm-eps-inside-by-root-n",
        family="eps of the wrong value",
        tests=_cell("scale_norm", "inside-1e-05-torch.float32-tiny"),
        old=_EPS,
        new="    return eps / math.sqrt(width)\n",
    ),
    _scale(
        id="scale-norm-root-mean-square",
        family="gain of the wrong size",
        tests=norm("scale_norm", "no_weight_gives_length_one"),
        old="        return 1 / math.sqrt(width)\n",
        new="        return 1.0\n",
    ),
    _scale(
        id="scale-norm-gain-lost-in-backward",
        family="gain lost in backward",
        tests=_cell("scale_norm", "clamp-0.02-torch.float32-unit"),
        old="    g = dy_MN * gain_of_rms(weight_1, width, zero_centred)\n",
        new="    g = dy_MN / math.sqrt(width)\n",
    ),
    _scale(
        id="scale-norm-dgain-of-the-other-form",
        family="gain lost in backward",
        tests=contract("derivatives", "first_and_second_derivatives", "scale_norm_outside"),
        old="    return dx, dgain if zero_centred else dgain / math.sqrt(width)\n",
        new="    return dx, dgain / math.sqrt(width)\n",
    ),
    _scale(
        id="scale-norm-eps-place-lost-in-backward",
        family="eps outside instead of inside",
        tests=_cell("scale_norm", "outside-0.01-torch.float32-tiny"),
        old="standardize_backward(g, x_MN, center=False, eps=eps, eps_place=eps_place)",
        new='standardize_backward(g, x_MN, center=False, eps=eps, eps_place="clamp")',
    ),
    Mutant(
        id="scale-norm-module-forgets-zero-centred",
        file="layers/scale_norm.py",
        family="1+w in half",
        tests=norm("scale_norm", "a_new_layer_is_a_weightless_rms_norm"),
        old="        zero_centred=layer.zero_centred,\n",
        new="",
    ),
    _tanh(
        id="tanh-slope-by-subtraction",
        family="digits lost where the function is flat",
        tests=norm("dynamic_tanh", "float64_slopes_keep_their_digits_where_the_function_is_flat"),
        old="    return 4 * e / (1 + e).square()\n",
        new="    return 1 - torch.tanh(z).square()\n",
    ),
    _tanh(
        id="tanh-slope-of-the-absolute-value",
        family="higher derivative wrong at 0",
        tests=norm("dynamic_tanh", "all_orders_at_zero"),
        old="torch.where(z < 0, z, -z)",
        new="-z.abs()",
    ),
    _tanh(
        id="tanh-alpha-lost-in-dx",
        family="gain lost in backward",
        tests=norm("dynamic_tanh", "numbers_by_hand"),
        old="    return alpha_1 * u, dalpha, dweight, dbias\n",
        new="    return u, dalpha, dweight, dbias\n",
    ),
    _squash(
        id="squash-gain-lost-in-backward",
        family="gain lost in backward",
        tests=norm("dynamic_tanh", "numbers_by_hand"),
        old="(dy_MN if gain is None else dy_MN * gain)",
        new="dy_MN",
    ),
    _squash(
        id="squash-dalpha-without-x",
        family="parameter gradient of the wrong factor",
        tests=norm("dynamic_tanh", "numbers_by_hand"),
        old="total(x_MN * u)",
        new="total(u)",
    ),
    _squash(
        id="squash-argument-overflows",
        family="overflow of the argument",
        tests=norm("dynamic_tanh", "huge_inputs_give_the_ends_and_no_gradient"),
        old=".clamp(-_FLAT, _FLAT)",
        new="",
    ),
    _erf(
        id="erf-shift-lost-in-backward",
        family="shift forgotten in backward",
        tests=norm("dynamic_erf", "numbers_by_hand"),
        old="    z = argument(x_MN, alpha_1, shift_1)\n",
        new="    z = argument(x_MN, alpha_1)\n",
    ),
    Mutant(
        id="squash-computed-in-half",
        file="ops/squash.py",
        family="rstd in half",
        tests=_cell("dynamic_tanh", "tanh-torch.float32-unit"),
        old="    return x_MN.to(compute_dtype(x_MN)).contiguous()\n",
        new="    return x_MN.bfloat16().to(compute_dtype(x_MN)).contiguous()\n",
    ),
    Mutant(
        id="squash-channels-not-moved-back",
        file="functional/squash.py",
        family="wrong axis",
        tests=norm("dynamic_tanh", "channels_elsewhere_equal_channels_moved_to_the_end"),
        old="y.movedim(-1, channel_axis).contiguous",
        new="y.movedim(-1, 0).contiguous",
    ),
    _qk(
        id="qk-norm-keys-get-the-gain-of-queries",
        family="gain of the wrong tensor",
        tests=norm("qk_norm", "one_gain_for_all_heads_as_in_qwen_and_gemma"),
        old="by_heads(k, k_weight, k_bias)",
        new="by_heads(k, q_weight, k_bias)",
    ),
    _qk(
        id="qk-norm-heads-and-features-swapped",
        family="wrong axis",
        tests=norm("qk_norm", "gain_of_all_features_as_in_olmo"),
        old="function(x.transpose(-3, -2).flatten(-2), weight, bias)\n",
        new="function(x.permute(0, 2, 3, 1).flatten(-2), weight, bias)\n",
    ),
    _qk(
        id="qk-norm-scale-on-both",
        family="scale applied twice",
        tests=norm("qk_norm", "attention_of_the_first_paper"),
        old="scale_norm(k, None, eps, impl=impl)",
        new="scale_norm(k, _as_tensor(scale, q), eps, impl=impl)",
    ),
    _qk(
        id="qk-norm-fixed-scale-in-half",
        family="constant rounded to half",
        tests=norm("qk_norm", "a_fixed_scale_is_a_number_that_half_precision_does_not_round"),
        old="dtype=compute_dtype(q), device=q.device)",
        new="dtype=q.dtype, device=q.device)",
    ),
    _qk_layer(
        id="qk-norm-module-forgets-over",
        family="wrong axis",
        tests=norm("qk_norm", "projection_with_layer_norm_and_biases"),
        old="            over=self.over,\n",
        new="",
    ),
    _qk_layer(
        id="qk-norm-module-default-eps",
        family="eps of the wrong value",
        tests=norm("qk_norm", "eps_arrives"),
        old="            eps=self.eps,\n",
        new="",
    ),
)
