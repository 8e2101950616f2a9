"""dynamic_erf on tensors."""

from __future__ import annotations

from torch import Tensor

from normkit import ops
from normkit.functional.nested import over_nested
from normkit.functional.squash import squashed
from normkit.ops.check import NormalizedShape


@over_nested
def dynamic_erf(
    x: Tensor,
    normalized_shape: NormalizedShape,
    alpha: Tensor,
    shift: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    channel_axis: int = -1,
    impl: str = "auto",
) -> Tensor:
    """``y = weight * erf(alpha * x + shift) + bias``, element by element: no statistics.

    Args:
        x: (*, *normalized_shape), any floating dtype, any strides.
        normalized_shape: sizes of the last axes, which have a weight and a bias of their own.
        alpha, shift: one number each, of shape (1,) or (); shift may be None.
        weight, bias: of shape ``normalized_shape``, any floating dtype, or None.
        channel_axis: where the axis of ``normalized_shape`` stands, if it is one: 1 for
            (B, C, *).
        impl: ``auto``, or the one that must run: ``torch`` or ``cpu``.

    Returns:
        y in the shape and dtype of x; computed in float64 (float32 on a device without it).

    Raises:
        ShapeError, DtypeError, OptionError: each with a sentence that says what to type.

    Source: Chen, Lu, Zhu, Sun, Liu 2025, arXiv:2512.10938.

    Example:
        >>> import torch
        >>> dynamic_erf(torch.tensor([[-100.0, 0.0, 2.0]]), 3, torch.tensor([0.5]))
        tensor([[-1.0000,  0.0000,  0.8427]])
    """
    return squashed(
        ops.dynamic_erf,
        ops.DynamicErfFormula,
        x,
        normalized_shape,
        {"alpha": alpha, "shift": shift},
        weight,
        bias,
        who="dynamic_erf",
        channel_axis=channel_axis,
        impl=impl,
    )
