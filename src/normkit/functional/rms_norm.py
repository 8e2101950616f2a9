"""rms_norm on tensors, and the eps that None stands for."""

from __future__ import annotations

import torch
from torch import Tensor

from normkit import ops
from normkit.errors import check_choice
from normkit.functional.nested import over_nested
from normkit.ops.check import NormalizedShape, check_options, checked, measured_features
from normkit.spec.norm import OUTPUT_DTYPES, ROUNDINGS, EpsPlace, OutputDtype, Rounding


@over_nested
def rms_norm(
    x: Tensor,
    normalized_shape: NormalizedShape,
    weight: Tensor | None = None,
    eps: float | None = None,
    *,
    bias: Tensor | None = None,
    eps_place: EpsPlace = "inside",
    zero_centred: bool = False,
    rounding: Rounding = "once",
    output_dtype: OutputDtype = "input",
    fraction: float = 1.0,
    impl: str = "auto",
) -> Tensor:
    """``y = x / sqrt(mean(x^2) + eps) * weight`` over the last axes.

    Args:
        x: (*, *normalized_shape), any floating dtype, any strides.
        normalized_shape: sizes of the last axes, which share one mean square.
        weight, bias: of shape ``normalized_shape``, any floating dtype, or None.
        eps: added to the mean square; None is 1.19e-7, for float64 input 2.2e-16, as in torch.
        eps_place: ``outside`` divides by ``rms + eps``, ``clamp`` by ``max(rms, eps)``.
        zero_centred: the gain is 1 + weight (Gemma).
        rounding: ``once`` at the end (torch, Gemma); ``before_gain`` also rounds the normalised
            value to the dtype of x (Llama).
        output_dtype: that of the ``input``, the ``promoted`` one of x and weight (Llama with a
            float32 weight), or the ``weight``'s (Apex's mixed norms).
        fraction: part of the features, the first ones, that the mean square sees (pRMSNorm).
        impl: ``auto``, or the one that must run: ``torch`` or ``cpu``.

    Returns:
        y in the shape of x. The compiled kernel computes in float32 (float64 for float64
        input), torch operations in float64 (float32 on a device without it).

    Raises:
        ShapeError, DtypeError, OptionError: each with a sentence that says what to type.

    Source: Zhang and Sennrich 2019, arXiv:1910.07467.

    Example:
        >>> rms_norm(torch.tensor([[3.0, 4.0]]), 2)
        tensor([[0.8485, 1.1314]])
    """
    who = "rms_norm"
    shape = checked(who, x, normalized_shape, weight, bias)
    check_options(who, eps, eps_place, impl)
    check_choice(who, "rounding", rounding, ROUNDINGS)
    check_choice(who, "output_dtype", output_dtype, OUTPUT_DTYPES)
    formula = ops.RMSNormFormula(
        len(shape),
        default_eps(x.dtype) if eps is None else float(eps),
        eps_place,
        zero_centred,
        rounding,
        output_dtype,
        measured_features(who, shape, fraction),
        impl=impl,
    )
    (y,) = ops.rms_norm(formula, x, weight, bias)
    return y


def default_eps(dtype: torch.dtype) -> float:
    """The eps that torch's RMSNorm computes with when it is given None: 1.19e-7, or 2.2e-16."""
    return torch.finfo(torch.float64 if dtype == torch.float64 else torch.float32).eps
