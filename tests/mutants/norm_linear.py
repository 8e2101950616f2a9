"""Bugs in norm_linear and NormLinear: what is kept, rounded, summed, skipped or left out."""

from __future__ import annotations

from functools import partial

from tests.mutants.mutant import Mutant
from tests.mutants.selections import norm

_reference = partial(Mutant, file="reference/norm_linear.py")
_op = partial(Mutant, file="ops/norm_linear.py")
_registration = partial(Mutant, file="ops/registration.py")
_functional = partial(Mutant, file="functional/norm_linear.py")
_layer = partial(Mutant, file="layers/norm_linear.py")

_BITS = norm("norm_linear", "bits_are_those_of_the_pair")
_AUTOCAST = norm("norm_linear", "autocast_does_what_it_does_to_the_pair")
_NEEDED = norm("norm_linear", "what_is_not_needed_is_not_computed")
_LAYER = "tests/layers/test_norm_linear.py::test_"

MUTANTS: tuple[Mutant, ...] = (
    _reference(
        id="last-row-missing-in-dbias-of-the-linear-layer",
        family="last row missing in dgamma",
        tests=_BITS,
        old="dout_MK.sum(0)",
        new="dout_MK[:-1].sum(0)",
    ),
    _op(
        id="dweight-of-x-not-of-the-norm",
        family="wrong tensor recomputed",
        tests=_BITS,
        old="            y_MN = self._cast(token_rows(y, 1))\n",
        new="            y_MN = self._cast(token_rows(tensors[0].to(y.dtype), 1))\n",
    ),
    _op(
        id="dy-summed-in-half",
        family="dgamma in half",
        tests=_AUTOCAST,
        old="total = dy.to(dtype) if total is None else total + dy.to(dtype)\n",
        new="total = dy.to(dtype) if total is None else (total.to(dy.dtype) + dy).to(dtype)\n",
    ),
    _op(
        id="dy-summed-from-the-first-layer",
        family="order of a sum",
        tests=_BITS,
        old="strict=True))[::-1]:\n",
        new="strict=True)):\n",
    ),
    _op(
        id="autocast-casts-float64-too",
        family="output dtype wrong",
        tests=_AUTOCAST,
        old="        if self.linear_dtype is None or dtype == torch.float64:\n",
        new="        if self.linear_dtype is None:\n",
    ),
    _op(
        id="norm-in-front-of-linear-not-by-its-kernel",
        family="slow path taken",
        tests=_NEEDED,
        old="        (y,) = self.normaliser.run(*tensors[:3])\n",
        new="        (y,) = self.normaliser.forward(*tensors[:3])\n",
    ),
    _op(
        id="norm-computed-again-for-frozen-weights",
        family="work for nobody",
        tests=_NEEDED,
        old="        if any(dout is not None and weight for dout, weight, _ in pairs):\n",
        new="        if any(dout is not None for dout, _, _ in pairs):\n",
    ),
    _op(
        id="norm-backward-for-frozen-x",
        family="work for nobody",
        tests=_NEEDED,
        old="        if any(needed[:3]):\n",
        new="        if True:\n",
    ),
    _op(
        id="norm-linear-rounding-lost",
        family="option ignored",
        tests=_BITS,
        old="        more = (self.rounding, ",
        new='        more = ("once", ',
    ),
    _op(
        id="norm-linear-one-plus-w-lost",
        family="option ignored",
        tests=_BITS,
        old="        how = (self.axes, self.eps, self.eps_place, self.zero_centred)\n",
        new="        how = (self.axes, self.eps, self.eps_place, False)\n",
    ),
    _registration(
        id="compiled-backward-computes-everything",
        family="work for nobody",
        tests=norm("norm_linear_contract", "a_compiled_backward_pass_computes_what_is_needed"),
        old="        needed = list(ctx.needs_input_grad[: len(tensors)])\n",
        new="        needed = [t is not None for t in tensors]\n",
    ),
    _registration(
        id="gradient-of-an-unused-output-without-a-shape",
        family="compiled path",
        tests=norm(
            "norm_linear_contract", "a_compiled_output_that_nobody_uses_gives_zero_gradients"
        ),
        old="    return t.new_zeros(t.shape) if gradient is None else gradient\n",
        new="    return t.new_empty(0) if gradient is None else gradient\n",
    ),
    _functional(
        id="norm-linear-knows-no-autocast",
        family="output dtype wrong",
        tests=_AUTOCAST,
        old="    return _HALVES[torch.get_autocast_dtype(kind)]\n",
        new="    return None\n",
    ),
    _functional(
        id="norm-linear-default-eps-of-another-norm",
        family="eps of the wrong value",
        tests=_BITS,
        old='(1e-5 if norm == "layer_norm"',
        new='(1e-6 if norm == "layer_norm"',
    ),
    _layer(
        id="norm-linear-never-fused",
        family="more kept than needed",
        tests=(f"{_LAYER}several_linear_layers_share_the_norm",),
        old="        if x.is_nested or not self._known(linears):\n",
        new="        if True:\n",
    ),
    _layer(
        id="hooks-of-submodules-skipped",
        family="hook skipped",
        tests=(f"{_LAYER}hooks_of_submodules_are_called",),
        old="    return not any(getattr(module, name) for name in _HOOKS)\n",
        new="    return True\n",
    ),
    _layer(
        id="adapters-in-the-place-of-a-submodule-skipped",
        family="hook skipped",
        tests=(f"{_LAYER}what_is_put_in_the_place_of_a_submodule_is_called",),
        old='    if type(module) not in kinds or "forward"',
        new='    if not isinstance(module, kinds) or "forward"',
    ),
    _layer(
        id="norm-linear-options-do-not-arrive",
        family="option ignored",
        tests=(f"{_LAYER}is_its_submodules_called_one_after_the_other",),
        old="            **options,\n",
        new="",
    ),
    _layer(
        id="norm-linear-over-the-last-axis-alone",
        family="option ignored",
        tests=(f"{_LAYER}is_its_submodules_called_one_after_the_other[layer_norm_options]",),
        old="            normalized_shape=norm.normalized_shape,\n",
        new="            normalized_shape=norm.normalized_shape[-1:],\n",
    ),
)
