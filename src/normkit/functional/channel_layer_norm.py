"""channel_layer_norm on tensors."""

from __future__ import annotations

from torch import Tensor

from normkit import ops
from normkit.ops.check import check_options, checked_channels
from normkit.spec.norm import EpsPlace


def channel_layer_norm(
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-6,
    *,
    channel_axis: int = 1,
    eps_place: EpsPlace = "inside",
    zero_centred: bool = False,
    impl: str = "auto",
) -> Tensor:
    """``y = (x - mean) / sqrt(var + eps) * weight + bias`` over the channels at each pixel.

    Args:
        x: any shape with a channel axis, any floating dtype; its memory format is kept and never
            changes values.
        weight, bias: (C,), any floating dtype, or None.
        eps: added to the variance, which has 1/C.
        channel_axis: 1 for (B, C, *), -1 for (B, *, C).
        eps_place: ``outside`` divides by ``std + eps``, ``clamp`` by ``max(std, eps)``.
        zero_centred: the gain is 1 + weight.
        impl: ``auto``, or the one that must run: ``torch`` or ``cpu``.

    Returns:
        y in the shape, dtype and memory format of x; what layer_norm gives with the channels last.

    Raises:
        ShapeError, DtypeError, OptionError: each with a sentence that says what to type.

    Source: Liu et al. 2022 (ConvNeXt), arXiv:2201.03545.

    Example:
        >>> import torch
        >>> x = torch.tensor([[[1.0, 10.0], [3.0, 30.0]]])  # 2 channels at 2 positions
        >>> channel_layer_norm(x).tolist()[0][1]
        [0.9999995231628418, 1.0]
    """
    who = "channel_layer_norm"
    axis = checked_channels(who, x, channel_axis, (None, None, weight, bias))
    check_options(who, eps, eps_place, impl)
    formula = ops.ChannelLayerNormFormula(axis, float(eps), eps_place, zero_centred, impl=impl)
    (y,) = ops.channel_layer_norm(formula, x, weight, bias)
    return y
