"""GroupNorm: torch's, exact in every memory format, with a mask for padding."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from normkit import functional
from normkit.errors import ShapeError, sentence
from normkit.layers.fast_path import keep_called
from normkit.layers.valid import current_valid
from normkit.ops.check import check_groups


class GroupNorm(nn.GroupNorm):
    """``y = (x - mean) / sqrt(var + eps) * weight + bias`` over the groups of each sample.

    A drop-in for ``torch.nn.GroupNorm``: same signature, parameters, state_dict and repr. Mean and
    1/n variance are over the C / G channels of a group, which are neighbours, and all positions of
    one sample. No running statistics: training and evaluation are the same.

    Args:
        num_groups: G, a divisor of C.
        num_channels: C.
        eps: added to the variance.
        affine: have a weight (and a bias), one value per channel.
        device, dtype: of the parameters.
        bias: have a bias, where affine.

    Shape:
        x (B, C, *), any floating dtype -> y of the same shape, dtype and memory format. ``valid``
        bool (or 0 and 1), True = real, of the shape of x without the channel axis, such as (B, T),
        or broadcastable to it; None: the mask of the ``with normkit.valid(mask):`` around the
        call, and without one all are real. Other positions count nowhere, give 0 and get no
        gradient.

    Raises:
        ShapeError, DtypeError, OptionError: each with a sentence that says what to type.
        StateError: a recomputation without the mask of its first forward pass.

    Source: Wu and He 2018, arXiv:1803.08494.

    Example:
        >>> x = torch.tensor([[[1.0, 3.0, 7.0], [1.0, 3.0, 7.0]]])
        >>> GroupNorm(1, 2)(x, torch.tensor([[True, True, False]]))[0, 0].detach()
        tensor([-1.0000,  1.0000,  0.0000])
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        """Create the parameters; see the class for the arguments."""
        check_groups("GroupNorm", num_channels, num_groups)
        super().__init__(num_groups, num_channels, eps, affine, device, dtype)
        if not bias:  # torch 2.10 has no such argument
            self.register_parameter("bias", None)
        keep_called(self)

    def reset_parameters(self) -> None:
        """Weight 1, bias 0."""
        if self.weight is not None:
            nn.init.ones_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, input: Tensor, valid: Tensor | None = None) -> Tensor:  # noqa: A002
        """Normalise; see the class for shapes."""
        valid = current_valid(self, valid)
        if input.dim() > 1 and input.shape[1] != self.num_channels:
            channels, shape = self.num_channels, tuple(input.shape)
            rule = f"axis 1 of x must hold the {channels} channels"
            fix = "Try x.movedim(-1, 1)" if shape[-1] == channels else ""
            raise ShapeError(sentence("GroupNorm", rule, f"x is {shape}", fix))
        return functional.group_norm(
            input, self.num_groups, self.weight, self.bias, self.eps, valid=valid
        )
