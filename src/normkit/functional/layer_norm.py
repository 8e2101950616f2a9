"""layer_norm on tensors."""

from __future__ import annotations

from torch import Tensor

from normkit import ops
from normkit.functional.nested import over_nested
from normkit.ops.check import NormalizedShape, check_options, checked
from normkit.spec.norm import EpsPlace


@over_nested
def layer_norm(
    x: Tensor,
    normalized_shape: NormalizedShape,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    *,
    eps_place: EpsPlace = "inside",
    zero_centred: bool = False,
    impl: str = "auto",
) -> Tensor:
    """``y = (x - mean) / sqrt(var + eps) * weight + bias`` over the last axes, var with 1/n.

    Args:
        x: (*, *normalized_shape), any floating dtype, any strides.
        normalized_shape: sizes of the last axes, which share one mean and variance.
        weight, bias: of shape ``normalized_shape``, any floating dtype, or None.
        eps: added to the variance.
        eps_place: ``outside`` divides by ``std + eps``, ``clamp`` by ``max(std, eps)``.
        zero_centred: the gain is 1 + weight.
        impl: ``auto``, or the one that must run: ``torch`` or ``cpu``.

    Returns:
        y in the shape and dtype of x. The compiled kernel computes in float32 (float64 for float64
        input), torch operations in float64 (float32 on a device without it).

    Raises:
        ShapeError, DtypeError, OptionError: each with a sentence that says what to type.

    Source: Ba, Kiros, Hinton 2016, arXiv:1607.06450.

    Example:
        >>> import torch
        >>> layer_norm(torch.tensor([[1.0, 2.0, 3.0]]), 3)
        tensor([[-1.2247,  0.0000,  1.2247]])
    """
    who = "layer_norm"
    shape = checked(who, x, normalized_shape, weight, bias)
    check_options(who, eps, eps_place, impl)
    formula = ops.LayerNormFormula(len(shape), float(eps), eps_place, zero_centred, impl=impl)
    (y,) = ops.layer_norm(formula, x, weight, bias)
    return y
