"""dynamic_tanh on tensors."""

from __future__ import annotations

from torch import Tensor

from normkit import ops
from normkit.functional.nested import over_nested
from normkit.functional.squash import squashed
from normkit.ops.check import NormalizedShape


@over_nested
def dynamic_tanh(
    x: Tensor,
    normalized_shape: NormalizedShape,
    alpha: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    channel_axis: int = -1,
    impl: str = "auto",
) -> Tensor:
    """``y = weight * tanh(alpha * x) + bias``, element by element: no statistics.

    Args:
        x: (*, *normalized_shape), any floating dtype, any strides.
        normalized_shape: sizes of the last axes, which have a weight and a bias of their own.
        alpha: one number, of shape (1,) or ().
        weight, bias: of shape ``normalized_shape``, any floating dtype, or None.
        channel_axis: where the axis of ``normalized_shape`` stands, if it is one: 1 for
            (B, C, *).
        impl: ``auto``, or the one that must run: ``torch`` or ``cpu``.

    Returns:
        y in the shape and dtype of x; computed in float64 (float32 on a device without it).

    Raises:
        ShapeError, DtypeError, OptionError: each with a sentence that says what to type.

    Source: Zhu, Chen, He, LeCun, Liu 2025, arXiv:2503.10622.

    Example:
        >>> import torch
        >>> dynamic_tanh(torch.tensor([[-100.0, 0.0, 2.0]]), 3, torch.tensor([0.5]))
        tensor([[-1.0000,  0.0000,  0.7616]])
    """
    return squashed(
        ops.dynamic_tanh,
        ops.DynamicTanhFormula,
        x,
        normalized_shape,
        {"alpha": alpha},
        weight,
        bias,
        who="dynamic_tanh",
        channel_axis=channel_axis,
        impl=impl,
    )
