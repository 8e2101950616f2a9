"""DynamicTanh and DynamicErf: a bounded function in place of a norm."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from normkit import functional
from normkit.errors import OptionError, sentence
from normkit.layers.fast_path import keep_called
from normkit.layers.layer_norm import more_options
from normkit.layers.parameters import register_parameters, weight_and_bias
from normkit.ops.check import NormalizedShape
from normkit.spec.shape import as_shape


class _Dynamic(nn.Module):
    """What both layers share: alpha, weight and bias, and where they start."""

    eps: float = 0.0  # there is no statistic to guard; outside code reads it of any norm
    channel_axis: int = -1
    alpha: nn.Parameter
    weight: nn.Parameter | None
    bias: nn.Parameter | None

    def __init__(
        self,
        normalized_shape: NormalizedShape,
        alpha: float,
        elementwise_affine: bool,
        bias: bool,
        device: Any,
        dtype: torch.dtype | None,
        *,
        channel_axis: int,
    ) -> None:
        super().__init__()
        who = type(self).__name__
        self.normalized_shape = as_shape(who, normalized_shape)
        if channel_axis != -1 and len(self.normalized_shape) > 1:
            rule = "channel_axis names one axis, so normalized_shape must be one number"
            raise OptionError(sentence(who, rule, f"it is {self.normalized_shape}"))
        self.initial_alpha = alpha
        self.elementwise_affine = elementwise_affine
        self.channel_axis = channel_axis
        shapes = weight_and_bias(self.normalized_shape, weight=elementwise_affine, bias=bias)
        register_parameters(self, {"alpha": 1, **shapes}, device, dtype)

    def reset_parameters(self) -> None:
        """Alpha as the constructor was given it, weight 1, bias 0."""
        nn.init.constant_(self.alpha, self.initial_alpha)
        if self.weight is not None:
            nn.init.ones_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def extra_repr(self) -> str:
        """The arguments; shift and channel_axis only where they are set."""
        affine = f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        text = f"{self.normalized_shape}, alpha={self.initial_alpha}, {affine}"
        return text + more_options(self, ("channel_axis",))


class DynamicTanh(_Dynamic):
    """``y = weight * tanh(alpha * x) + bias``, element by element: no statistics.

    Parameters have the names of the authors' code: alpha (1,), weight and bias.

    Args:
        normalized_shape: int, tuple, list or Size: sizes of the last axes, which have a weight
            and a bias of their own.
        alpha: where alpha starts. The authors' LLaMA needs other values, by width and place.
        elementwise_affine: have a weight (and a bias).
        bias: have a bias.
        device, dtype: of the parameters.
        channel_axis: where the axis of ``normalized_shape`` stands, if it is one: 1 for
            (B, C, *), the authors' ``channels_last=False``.

    Shape:
        x (*, *normalized_shape), any floating dtype and strides -> y of the same shape and dtype.

    Raises:
        ShapeError, DtypeError, OptionError: each with a sentence that says what to type.

    Source: Zhu, Chen, He, LeCun, Liu 2025, arXiv:2503.10622.

    Example:
        >>> DynamicTanh(3)(torch.tensor([[-100.0, 0.0, 2.0]])).detach()
        tensor([[-1.0000,  0.0000,  0.7616]])
    """

    def __init__(
        self,
        normalized_shape: NormalizedShape,
        alpha: float = 0.5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        channel_axis: int = -1,
    ) -> None:
        """Create the parameters; see the class for the arguments."""
        super().__init__(
            normalized_shape,
            alpha,
            elementwise_affine,
            bias,
            device,
            dtype,
            channel_axis=channel_axis,
        )
        self.reset_parameters()
        keep_called(self)

    def forward(self, x: Tensor) -> Tensor:
        """Squash; see the class for shapes."""
        return functional.dynamic_tanh(
            x,
            self.normalized_shape,
            self.alpha,
            self.weight,
            self.bias,
            channel_axis=self.channel_axis,
        )


class DynamicErf(_Dynamic):
    """``y = weight * erf(alpha * x + shift) + bias``, element by element: no statistics.

    Parameters have the names of the authors' code: alpha (1,), shift (1,), weight and bias.

    Args:
        normalized_shape: int, tuple, list or Size: sizes of the last axes, which have a weight
            and a bias of their own.
        alpha, shift: where both start.
        elementwise_affine: have a weight (and a bias).
        bias: have a bias.
        device, dtype: of the parameters.
        channel_axis: where the axis of ``normalized_shape`` stands, if it is one: 1 for
            (B, C, *), the authors' ``channels_last=False``.

    Shape:
        x (*, *normalized_shape), any floating dtype and strides -> y of the same shape and dtype.

    Raises:
        ShapeError, DtypeError, OptionError: each with a sentence that says what to type.

    Source: Chen, Lu, Zhu, Sun, Liu 2025, arXiv:2512.10938.

    Example:
        >>> DynamicErf(3)(torch.tensor([[-100.0, 0.0, 2.0]])).detach()
        tensor([[-1.0000,  0.0000,  0.8427]])
    """

    initial_shift: float = 0.0
    shift: nn.Parameter

    def __init__(
        self,
        normalized_shape: NormalizedShape,
        alpha: float = 0.5,
        shift: float = 0.0,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        channel_axis: int = -1,
    ) -> None:
        """Create the parameters; see the class for the arguments."""
        super().__init__(
            normalized_shape,
            alpha,
            elementwise_affine,
            bias,
            device,
            dtype,
            channel_axis=channel_axis,
        )
        self.initial_shift = shift
        self.shift = nn.Parameter(torch.empty(1, device=device, dtype=dtype))
        self.reset_parameters()
        keep_called(self)

    def reset_parameters(self) -> None:
        """Alpha and shift as the constructor was given them, weight 1, bias 0."""
        super().reset_parameters()
        nn.init.constant_(self.shift, self.initial_shift)

    def forward(self, x: Tensor) -> Tensor:
        """Squash; see the class for shapes."""
        return functional.dynamic_erf(
            x,
            self.normalized_shape,
            self.alpha,
            self.shift,
            self.weight,
            self.bias,
            channel_axis=self.channel_axis,
        )

    def extra_repr(self) -> str:
        """The arguments, the shift where it does not start at 0."""
        return super().extra_repr() + more_options(self, ("initial_shift",))
