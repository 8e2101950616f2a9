"""LayerNorm over the channels at each pixel, in plain torch.

Source: Liu et al. 2022 (ConvNeXt), arXiv:2201.03545.
"""

from __future__ import annotations

import math

from torch import Tensor

from normkit.reference.layer_norm import layer_norm, layer_norm_backward
from normkit.spec.norm import EpsPlace


def channel_layer_norm(
    x: Tensor,
    weight_C: Tensor | None = None,
    bias_C: Tensor | None = None,
    *,
    channel_axis: int = 1,
    eps: float = 1e-6,
    eps_place: EpsPlace = "inside",
    zero_centred: bool = False,
) -> Tensor:
    """``y = (x - mean) / sqrt(var + eps) * gain + bias`` along the channel axis, var with 1/C."""
    y_MC = layer_norm(
        _pixels(x, channel_axis),
        weight_C,
        bias_C,
        eps=eps,
        eps_place=eps_place,
        zero_centred=zero_centred,
    )
    return _back(y_MC, x, channel_axis)


def channel_layer_norm_backward(
    dy: Tensor,
    x: Tensor,
    weight_C: Tensor | None = None,
    *,
    channel_axis: int = 1,
    eps: float = 1e-6,
    eps_place: EpsPlace = "inside",
    zero_centred: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients (dx, dweight_C, dbias_C): LayerNorm's, a pixel a row."""
    dx_MC, dweight, dbias = layer_norm_backward(
        _pixels(dy, channel_axis),
        _pixels(x, channel_axis),
        weight_C,
        eps=eps,
        eps_place=eps_place,
        zero_centred=zero_centred,
    )
    return _back(dx_MC, x, channel_axis), dweight, dbias


def _pixels(x: Tensor, channel_axis: int) -> Tensor:
    """As (M, C): one row per pixel."""
    last = x.movedim(channel_axis, -1)
    return last.reshape(math.prod(last.shape[:-1]), last.shape[-1])


def _back(y_MC: Tensor, x: Tensor, channel_axis: int) -> Tensor:
    """Undo :func:`_pixels` for a result of the shape of x."""
    return y_MC.reshape(x.movedim(channel_axis, -1).shape).movedim(-1, channel_axis)
