"""adaptive_layer_norm on tensors."""

from __future__ import annotations

from torch import Tensor

from normkit import ops
from normkit.functional.adaptive import adapt
from normkit.ops.check import NormalizedShape


def adaptive_layer_norm(
    x: Tensor,
    normalized_shape: NormalizedShape,
    scale: Tensor,
    shift: Tensor | None = None,
    eps: float = 1e-6,
    *,
    impl: str = "auto",
) -> Tensor:
    """``y = (x - mean) / sqrt(var + eps) * (1 + scale) + shift`` over the last axes, var with 1/n.

    Args:
        x: (*, *normalized_shape), any floating dtype, any strides.
        normalized_shape: sizes of the last axes, which share one mean and variance.
        scale, shift: broadcastable to x, any floating dtype: (B, 1, D) for one per sample of x
            (B, T, D), (B, T, D) for one per token. (B, D) means one per sample too, where B
            differs from T. ``shift`` may be None.
        eps: added to the variance.
        impl: ``auto``, or the one that must run: ``torch`` or ``cpu``.

    Returns:
        y in the shape and dtype of x. The compiled kernel computes in float32
        (float64 for float64 input), torch operations in float64 where the device has it.

    Raises:
        ShapeError, DtypeError, OptionError: each with a sentence that says what to type.

    Source: Peebles and Xie 2022 (DiT), arXiv:2212.09748.

    Example:
        >>> import torch
        >>> x, scale = torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([1.0, 1.0, 0.0])
        >>> adaptive_layer_norm(x, 3, scale, shift=torch.ones(3))
        tensor([[-1.4495,  1.0000,  2.2247]])
    """
    return adapt(
        ops.adaptive_layer_norm,
        ops.AdaptiveLayerNormFormula,
        x,
        normalized_shape,
        (scale, shift),
        who="adaptive_layer_norm",
        eps=eps,
        impl=impl,
    )
