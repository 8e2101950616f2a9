"""norm_linear on tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict, Unpack, overload

import torch
from torch import Tensor

from normkit import ops
from normkit.errors import DtypeError, OptionError, ShapeError, check_choice, sentence
from normkit.functional.rms_norm import default_eps
from normkit.ops.check import (
    NormalizedShape,
    check_floating,
    check_options,
    checked,
    measured_features,
)
from normkit.ops.norm_linear import LINEAR_NORMS, MOST_LINEARS, LinearNorm
from normkit.reference.norm_linear import Linear
from normkit.spec.norm import OUTPUT_DTYPES, ROUNDINGS, EpsPlace, OutputDtype, Rounding

_WHO = "norm_linear"
_HALVES = {torch.bfloat16: "bfloat16", torch.float16: "float16", torch.float32: "float32"}


class NormOptions(TypedDict, total=False):
    """The keyword arguments of :func:`norm_linear`."""

    norm: LinearNorm
    norm_weight: Tensor | None
    norm_bias: Tensor | None
    normalized_shape: NormalizedShape | None
    eps: float | None
    eps_place: EpsPlace
    zero_centred: bool
    rounding: Rounding
    output_dtype: OutputDtype
    fraction: float
    impl: str


@overload
def norm_linear(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, **options: Unpack[NormOptions]
) -> Tensor: ...
@overload
def norm_linear(
    x: Tensor,
    weight: Sequence[Tensor],
    bias: Sequence[Tensor | None] | None = None,
    **options: Unpack[NormOptions],
) -> tuple[Tensor, ...]: ...
def norm_linear(
    x: Tensor,
    weight: Tensor | Sequence[Tensor],
    bias: Tensor | Sequence[Tensor | None] | None = None,
    *,
    norm: LinearNorm = "layer_norm",
    norm_weight: Tensor | None = None,
    norm_bias: Tensor | None = None,
    normalized_shape: NormalizedShape | None = None,
    eps: float | None = None,
    eps_place: EpsPlace = "inside",
    zero_centred: bool = False,
    rounding: Rounding = "once",
    output_dtype: OutputDtype = "input",
    fraction: float = 1.0,
    impl: str = "auto",
) -> Tensor | tuple[Tensor, ...]:
    """``out = norm(x) W^T + b``, of which only x is kept: the backward pass norms x again.

    The bits, forward and backward, are those of :func:`layer_norm` or :func:`rms_norm` followed by
    ``torch.nn.functional.linear``, which keeps the norm's output too.

    Args:
        x: (*, in_features), any strides.
        weight: (out_features, in_features), of the dtype that the norm returns unless autocast
            makes them equal. Or 2 or 3 of them (query, key and value; gate and up), which share one
            norm, computed once.
        bias: (out_features,) or None; for several weights, one or None for each.
        norm: ``layer_norm`` or ``rms_norm``.
        norm_weight, norm_bias: of shape ``normalized_shape``, any floating dtype, or None.
        normalized_shape: sizes of the last axes that the norm runs over; None: in_features.
        eps: None is the norm's own default: 1e-5, or for RMSNorm 1.19e-7 (float64: 2.2e-16).
        eps_place, zero_centred: as in :func:`layer_norm` and :func:`rms_norm`.
        rounding, output_dtype, fraction: as in :func:`rms_norm`, and for it alone.
        impl: of the norm: ``auto``, ``torch`` or ``cpu``.

    Returns:
        out (*, out_features) as F.linear returns it; a tuple of them for several weights.

    Raises:
        ShapeError, DtypeError, OptionError: each with a sentence that says what to type.

    Example:
        >>> weight = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]])
        >>> norm_linear(torch.tensor([[1.0, 2.0, 3.0]]), weight)
        tensor([[-1.2247,  1.2247]])
    """
    check_floating(_WHO, x)
    if x.is_nested:
        rule = "x must not be a nested tensor"
        raise DtypeError(sentence(_WHO, rule, "it is one", "Call the norm and F.linear on it"))
    check_choice(_WHO, "norm", norm, LINEAR_NORMS)
    linears = _linears(weight, bias)
    for number, linear in enumerate(linears):
        _check_linear(x, linear, f" {number}" if len(linears) > 1 else "")
    shape = checked(
        _WHO,
        x,
        x.shape[-1] if normalized_shape is None else normalized_shape,
        norm_weight,
        norm_bias,
        names=("norm_weight", "norm_bias"),
    )
    check_options(_WHO, eps, eps_place, impl)
    check_choice(_WHO, "rounding", rounding, ROUNDINGS)
    check_choice(_WHO, "output_dtype", output_dtype, OUTPUT_DTYPES)
    if norm == "layer_norm" and (rounding, output_dtype, fraction) != ("once", "input", 1.0):
        rule = "rounding, output_dtype and fraction are options of norm='rms_norm'"
        raise OptionError(sentence(_WHO, rule, "norm is 'layer_norm'", "Leave them out"))
    formula = ops.NormLinearFormula(
        norm,
        len(shape),
        (1e-5 if norm == "layer_norm" else default_eps(x.dtype)) if eps is None else float(eps),
        eps_place,
        zero_centred,
        rounding,
        output_dtype,
        measured_features(_WHO, shape, fraction),
        _autocast_dtype(x),
        impl=impl,
    )
    _check_dtypes(formula, (x, norm_weight, norm_bias), linears)
    absent = [None] * (2 * (MOST_LINEARS - len(linears)))
    given = [t for linear in linears for t in linear]
    outs = ops.norm_linear(formula, x, norm_weight, norm_bias, *given, *absent)
    return outs[0] if isinstance(weight, Tensor) else outs[: len(linears)]


def _linears(
    weight: Tensor | Sequence[Tensor], bias: Tensor | Sequence[Tensor | None] | None
) -> list[Linear]:
    """Pairs of weight and bias."""
    if isinstance(weight, Tensor):
        if bias is not None and not isinstance(bias, Tensor):
            rule = "one weight has one bias, a tensor or None"
            raise OptionError(sentence(_WHO, rule, f"bias is a {type(bias).__name__}"))
        return [(weight, bias)]
    if not 1 <= len(weight) <= MOST_LINEARS:
        rule = f"one norm takes from 1 to {MOST_LINEARS} weights"
        fix = "Try torch.cat(weights) and out.split(sizes, -1)"
        raise OptionError(sentence(_WHO, rule, f"there are {len(weight)}", fix))
    biases = [None] * len(weight) if bias is None else bias
    if isinstance(biases, Tensor) or len(biases) != len(weight):
        came = "bias is a tensor" if isinstance(biases, Tensor) else f"there are {len(biases)}"
        rule = f"{len(weight)} weights have as many biases"
        raise OptionError(sentence(_WHO, rule, came, "Give None for each that is not there"))
    return list(zip(weight, biases, strict=True))


def _check_linear(x: Tensor, linear: Linear, number: str) -> None:
    """Check the shapes of one linear layer."""
    weight, bias = linear
    width = x.shape[-1] if x.dim() else 0
    if weight.dim() != 2 or weight.shape[1] != width or not x.dim():
        rule = f"weight{number} must be (out_features, in_features), x (*, in_features)"
        came = f"they are {tuple(weight.shape)} and {tuple(x.shape)}"
        turned = weight.dim() == 2 and weight.shape[0] == width
        raise ShapeError(sentence(_WHO, rule, came, "Try weight.t()" if turned else ""))
    if bias is not None and bias.shape != weight.shape[:1]:
        rule = f"bias{number} must have one value per output, ({weight.shape[0]},)"
        raise ShapeError(sentence(_WHO, rule, f"it is {tuple(bias.shape)}"))


def _check_dtypes(
    formula: ops.NormLinearFormula,
    norm: tuple[Tensor, *tuple[Tensor | None, ...]],
    linears: list[Linear],
) -> None:
    """Check that the norm's output, weights and biases meet in one dtype, as F.linear demands."""
    y = formula.cast_dtype(formula.normaliser.output_dtype_of(*norm))
    for t in (t for linear in linears for t in linear if t is not None):
        if formula.cast_dtype(t.dtype) != y:
            rule = "weight and bias must have the dtype of what the norm returns"
            fix = "Cast one of them, or call it under torch.autocast"
            raise DtypeError(sentence(_WHO, rule, f"they are {t.dtype} and {y}", fix))


def _autocast_dtype(x: Tensor) -> str | None:
    """What autocast casts the operands of a linear layer to here; None where it is off."""
    kind = x.device.type
    if not torch.amp.is_autocast_available(kind) or not torch.is_autocast_enabled(kind):
        return None
    return _HALVES[torch.get_autocast_dtype(kind)]
