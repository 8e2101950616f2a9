"""gated_rms_norm on tensors."""

from __future__ import annotations

import math

from torch import Tensor

from normkit import ops
from normkit.errors import OptionError, check_choice, sentence
from normkit.ops.check import NormalizedShape, check_beside, check_options, checked
from normkit.spec.norm import (
    GATE_FUNCTIONS,
    GATE_PLACES,
    ROUNDINGS,
    GateFunction,
    GatePlace,
    Rounding,
)


def gated_rms_norm(
    x: Tensor,
    gate: Tensor,
    normalized_shape: NormalizedShape,
    weight: Tensor | None = None,
    eps: float = 1e-6,
    *,
    bias: Tensor | None = None,
    gate_function: GateFunction = "silu",
    gate_place: GatePlace = "after",
    groups: int = 1,
    zero_centred: bool = False,
    rounding: Rounding = "once",
    impl: str = "auto",
) -> Tensor:
    """``y = x / sqrt(mean(x^2) + eps) * weight * silu(gate)`` over the last axes.

    Args:
        x: (*, *normalized_shape), any floating dtype, any strides.
        gate: broadcastable to x, any floating dtype.
        normalized_shape: sizes of the last axes, which are normalised.
        weight, bias: of shape ``normalized_shape``, any floating dtype, or None.
        eps: added to the mean square.
        gate_function: ``silu`` or ``sigmoid``.
        gate_place: ``after`` multiplies the normalised, gained value (Qwen3-Next, Gated DeltaNet);
            ``before`` multiplies x, and the norm sees the product (Mamba 2).
        groups: the mean square is taken within each of so many groups of contiguous features:
            Mamba 2's ``d // group_size``.
        zero_centred: the gain is 1 + weight.
        rounding: ``once`` at the end (mamba_ssm, flash-linear-attention); ``before_gain`` also
            rounds the normalised value to the dtype of x, and its product with the weight, where
            the gate comes after, to the dtype that both promote to (transformers).
        impl: ``auto``, or the one that must run: ``torch`` or ``cpu``.

    Returns:
        y in the shape and dtype of x. The compiled kernel computes in float32
        (float64 for float64 input), torch operations in float64 where the device has it.

    Raises:
        ShapeError, DtypeError, OptionError: each with a sentence that says what to type.

    Source: Dao and Gu 2024 (Mamba 2), arXiv:2405.21060.

    Example:
        >>> import torch
        >>> x, gate = torch.tensor([[3.0, 4.0]]), torch.tensor([[0.0, 1.0]])
        >>> gated_rms_norm(x, gate, 2, gate_function="sigmoid")
        tensor([[0.4243, 0.8271]])
    """
    who = "gated_rms_norm"
    shape = checked(who, x, normalized_shape, weight, bias)
    check_beside(who, "gate", gate, x)
    check_options(who, eps, "inside", impl)
    check_gating(who, shape, gate_function, gate_place, groups, rounding)
    formula = ops.GatedRMSNormFormula(
        len(shape),
        float(eps),
        "inside",
        gate_function,
        gate_place,
        groups,
        zero_centred,
        rounding,
        impl=impl,
    )
    (y,) = ops.gated_rms_norm(formula, x, gate, weight, bias)
    return y


def check_gating(
    who: str,
    shape: tuple[int, ...],
    gate_function: str,
    gate_place: str,
    groups: int,
    rounding: str,
) -> None:
    """Check the options of a gated norm of this ``normalized_shape``."""
    check_choice(who, "gate_function", gate_function, GATE_FUNCTIONS)
    check_choice(who, "gate_place", gate_place, GATE_PLACES)
    check_choice(who, "rounding", rounding, ROUNDINGS)
    width = math.prod(shape)
    if not isinstance(groups, int) or groups < 1 or width % groups:
        rule = f"groups must divide the {width} features"
        fix = "Where you know the size of a group, type groups=features // group_size"
        raise OptionError(sentence(who, rule, f"it is {groups!r}", fix))
