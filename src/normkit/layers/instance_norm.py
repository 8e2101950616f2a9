"""InstanceNorm1d/2d/3d: torch's, exact in every memory format, with a mask for padding."""

from __future__ import annotations

import math
import warnings
from typing import Any

import torch
from torch import Tensor, nn

from normkit import functional
from normkit.errors import ShapeError, StateError, sentence
from normkit.layers.fast_path import keep_called
from normkit.layers.statistics import RunningStatistics, widen_buffers
from normkit.layers.valid import current_valid


class _InstanceNorm(RunningStatistics):
    """What the three share: checks with sentences, a mask, statistics in float32 or better."""

    num_features: int
    affine: bool
    track_running_stats: bool
    layout: str  # of a batch
    function = "instance_norm"

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        args = (num_features, eps, momentum, affine, track_running_stats, device, dtype)
        super().__init__(*args)
        if not bias:  # torch 2.10 has no such argument
            self.register_parameter("bias", None)
        widen_buffers(self)
        keep_called(self)

    def forward(self, input: Tensor, valid: Tensor | None = None) -> Tensor:  # noqa: A002
        """Normalise; see the class for shapes."""
        valid = current_valid(self, valid)
        self._check_input_dim(input)
        axes = self.layout.count(",") + 1
        self._check_channels(input, axes)
        if input.dim() == axes:
            return self._of_batch(input, valid)
        return self._of_batch(input[None], valid).squeeze(0)

    def _of_batch(self, x: Tensor, valid: Tensor | None) -> Tensor:
        own = self.training or not self.track_running_stats
        if own:
            self._check_positions(x)
            if self.running_mean is not None:
                self._refuse_functional()
        out = functional.instance_norm(
            x,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            own,
            0.0 if self.momentum is None else self.momentum,  # as torch: no cumulative mean here
            self.eps,
            valid=valid,
        )
        if own:
            self.store(out.running_mean, out.running_var)
        return out.y

    def _check_input_dim(self, input: Tensor) -> None:  # noqa: A002 (torch's name)
        axes = self.layout.count(",") + 1
        if input.dim() not in (axes, axes - 1):
            rule = f"x must be {self.layout}, or without B"
            raise ShapeError(sentence(type(self).__name__, rule, f"x is {tuple(input.shape)}"))

    def _check_channels(self, x: Tensor, axes: int) -> None:
        axis, features = x.dim() - axes + 1, self.num_features
        if x.shape[axis] == features:
            return
        rule = f"axis {axis} of x must hold the {features} channels"
        fix = f"Try x.movedim(-1, {axis})" if x.shape[-1] == features else ""
        text = sentence(type(self).__name__, rule, f"x is {tuple(x.shape)}", fix)
        if self.affine or self.running_mean is not None:
            raise ShapeError(text)
        # Nothing here has the size of the channels: torch computes, with a warning, and so do we.
        warnings.warn(text, stacklevel=3)

    def _check_positions(self, x: Tensor) -> None:
        if math.prod(x.shape[2:]) != 1:
            return
        rule = "statistics of one sample need more than one position"
        came = f"x of shape {tuple(x.shape)} has one"
        fix = "Put the norm where there are more, or use a GroupNorm or ChannelLayerNorm"
        raise StateError(sentence(type(self).__name__, rule, came, fix))


class InstanceNorm1d(_InstanceNorm, nn.InstanceNorm1d):
    """``y = (x - mean) / sqrt(var + eps) * weight + bias`` for each channel of each sample.

    A drop-in for ``torch.nn.InstanceNorm1d``: same signature, parameters, buffers, state_dict and
    repr. Mean and 1/n variance are over the positions of one channel of one sample. By default
    there is no weight, no bias and no running statistic, and evaluation computes as training does.
    With ``track_running_stats`` training moves the running ones towards the mean over the batch of
    these means and of the 1/(n - 1) variances, and evaluation uses them. They stay float32 under
    ``.half()``. As in torch, ``num_batches_tracked`` stays 0, and momentum None never moves them.

    Shape:
        x (B, C, T) or (C, T), any floating dtype -> y of the same shape and dtype. ``valid`` bool
        (or 0 and 1), True = real, of the shape of x without the channel axis, such as (B, T), or
        broadcastable to it; None: the mask of the ``with normkit.valid(mask):`` around the call,
        and without one all are real. Other positions count nowhere, give 0 and get no gradient. In
        the running statistics every sample weighs the same; one without a real position is left
        out, of the variance also one with a single one.

    Raises:
        ShapeError, DtypeError: x or valid do not fit.
        StateError: a sample has one position in all; running statistics under torch.func in
            training; a recomputation without the mask of its first forward pass.

    Source: Ulyanov, Vedaldi, Lempitsky 2016, arXiv:1607.08022.

    Example:
        >>> InstanceNorm1d(2)(torch.tensor([[[1.0, 3.0], [10.0, 30.0]]]))
        tensor([[[-1.0000,  1.0000],
                 [-1.0000,  1.0000]]])
    """

    layout = "(B, C, T)"


class InstanceNorm2d(_InstanceNorm, nn.InstanceNorm2d):
    """``y = (x - mean) / sqrt(var + eps) * weight + bias`` for each channel of each image.

    A drop-in for ``torch.nn.InstanceNorm2d``; see :class:`InstanceNorm1d`. The memory format of x
    is kept and never changes values.

    Shape:
        x (B, C, H, W) or (C, H, W), valid (B, H, W) -> y of the same shape and dtype.

    Raises:
        ShapeError, DtypeError, StateError: as in :class:`InstanceNorm1d`.

    Source: Ulyanov, Vedaldi, Lempitsky 2016, arXiv:1607.08022.

    Example:
        >>> InstanceNorm2d(3)(torch.randn(2, 3, 4, 4)).shape
        torch.Size([2, 3, 4, 4])
    """

    layout = "(B, C, H, W)"


class InstanceNorm3d(_InstanceNorm, nn.InstanceNorm3d):
    """``y = (x - mean) / sqrt(var + eps) * weight + bias`` for each channel of each volume.

    A drop-in for ``torch.nn.InstanceNorm3d``; see :class:`InstanceNorm1d`.

    Shape:
        x (B, C, D, H, W) or (C, D, H, W), valid (B, D, H, W) -> y of the same shape and dtype.

    Raises:
        ShapeError, DtypeError, StateError: as in :class:`InstanceNorm1d`.

    Source: Ulyanov, Vedaldi, Lempitsky 2016, arXiv:1607.08022.

    Example:
        >>> InstanceNorm3d(3)(torch.randn(2, 3, 4, 4, 4)).shape
        torch.Size([2, 3, 4, 4, 4])
    """

    layout = "(B, C, D, H, W)"
