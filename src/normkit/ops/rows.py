"""Tensors as rows: (M rows, N normalised) for token norms, (C channels, R positions) for batch."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def token_rows(x: Tensor, axes: int) -> Tensor:
    """View, or copy where strides demand it, as (M, N): the last ``axes`` axes become N."""
    split = x.dim() - axes
    return x.reshape(math.prod(x.shape[:split]), math.prod(x.shape[split:]))


def channel_rows(x: Tensor, channel_axis: int) -> Tensor:
    """As (C, R): one row per channel."""
    first = x.movedim(channel_axis, 0)
    return first.reshape(first.shape[0], math.prod(first.shape[1:])).contiguous()


def from_channel_rows(y_CR: Tensor, x: Tensor, channel_axis: int) -> Tensor:
    """Undo :func:`channel_rows` for a result of the shape of x, in the memory format of x."""
    first = x.movedim(channel_axis, 0).shape
    return y_CR.reshape(first).movedim(0, channel_axis).contiguous(memory_format=memory_format(x))


def memory_format(x: Tensor) -> torch.memory_format:
    """The format that a result shaped like x is returned in."""
    if torch._C._are_functorch_transforms_active() or x.is_contiguous():
        return torch.contiguous_format
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    wanted = formats.get(x.dim(), torch.contiguous_format)
    return wanted if x.is_contiguous(memory_format=wanted) else torch.contiguous_format


def position_rows(valid: Tensor | None) -> Tensor | None:
    """A mask over all axes but the channel's, as (R,)."""
    return None if valid is None else valid.reshape(-1)
