"""ChannelLayerNorm: LayerNorm over the channels at each pixel (ConvNeXt's LayerNorm2d)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from normkit import functional
from normkit.errors import check_choice
from normkit.layers.fast_path import keep_called
from normkit.layers.layer_norm import more_options
from normkit.layers.parameters import register_parameters, weight_and_bias
from normkit.layers.statistics import check_features
from normkit.spec.norm import EPS_PLACES, EpsPlace


class ChannelLayerNorm(nn.Module):
    """``y = (x - mean) / sqrt(var + eps) * weight + bias`` over the C channels at each pixel.

    Each pixel stands alone, so size, padding and the other samples change nothing. The state_dict
    is that of timm's ``LayerNorm2d``: weight and bias of shape (C,).

    Args:
        num_channels: C.
        eps: added to the variance, which has 1/C.
        elementwise_affine: have a weight (and a bias).
        bias: have a bias.
        device, dtype: of the parameters.
        channel_axis: 1 for (B, C, *), channels first; -1 for (B, *, C), channels last.
        eps_place: ``outside`` divides by ``std + eps``, ``clamp`` by ``max(std, eps)``.
        zero_centred: the gain is 1 + weight, and weight starts at 0.

    Shape:
        x with C at ``channel_axis`` and any number of other axes, any floating dtype -> y of the
        same shape, dtype and memory format, which never changes values.

    Raises:
        ShapeError, DtypeError, OptionError: each with a sentence that says what to type.

    Source: Liu et al. 2022 (ConvNeXt), arXiv:2201.03545.

    Example:
        >>> ChannelLayerNorm(3)(torch.tensor([[[1.0], [2.0], [3.0]]])).flatten().detach()
        tensor([-1.2247,  0.0000,  1.2247])
    """

    channel_axis: int = 1
    eps_place: EpsPlace = "inside"
    zero_centred: bool = False
    weight: nn.Parameter | None
    bias: nn.Parameter | None

    def __init__(
        self,
        num_channels: int,
        eps: float = 1e-6,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        channel_axis: int = 1,
        eps_place: EpsPlace = "inside",
        zero_centred: bool = False,
    ) -> None:
        """Create the parameters; see the class for the arguments."""
        super().__init__()
        check_choice("ChannelLayerNorm", "eps_place", eps_place, EPS_PLACES)
        self.num_channels = num_channels
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self.channel_axis = channel_axis
        self.eps_place = eps_place
        self.zero_centred = zero_centred
        shapes = weight_and_bias(num_channels, weight=elementwise_affine, bias=bias)
        register_parameters(self, shapes, device, dtype)
        self.reset_parameters()
        keep_called(self)

    def reset_parameters(self) -> None:
        """Weight 1 (0 where zero_centred), bias 0."""
        if self.weight is not None:
            nn.init.constant_(self.weight, 0.0 if self.zero_centred else 1.0)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Normalise; see the class for shapes."""
        check_features(self, x, self.num_channels, self.channel_axis)
        return functional.channel_layer_norm(
            x,
            self.weight,
            self.bias,
            self.eps,
            channel_axis=self.channel_axis,
            eps_place=self.eps_place,
            zero_centred=self.zero_centred,
        )

    def extra_repr(self) -> str:
        """The arguments, those that stand at their defaults left out from channel_axis on."""
        text = f"{self.num_channels}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        text += f", bias={self.bias is not None}"
        return text + more_options(self, ("channel_axis", "eps_place", "zero_centred"))
