"""Tensors as rows: (M rows, N normalised) for token norms, (C channels, R positions) for batch."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from normkit.reference.standardize import column_sum

# Rows are worked through in pieces of this size, a constant, so that no bit depends on the machine.
# Wide copies of a piece stay in the cache and reuse memory; those of a whole tensor cost more in
# page faults than in arithmetic.
_PIECE_ELEMENTS = 131072


def pieces(x_MN: Tensor) -> list[slice]:
    """Slices of rows to work through one after the other; all rows at once off the CPU."""
    rows, width = x_MN.shape
    step = max(1, _PIECE_ELEMENTS // max(1, width)) if x_MN.device.type == "cpu" else max(1, rows)
    return [slice(first, first + step) for first in range(0, max(1, rows), step)]


def in_order(partials: Sequence[Tensor]) -> Tensor:
    """Add up from the first to the last."""
    return functools.reduce(torch.add, partials)


def joined(parts: Sequence[Tensor]) -> Tensor:
    """The results of the pieces as one tensor again.

    Without autocast, which refuses to join tensors of the half dtype that it does not cast to.
    """
    if len(parts) == 1:
        return parts[0]
    with torch.autocast("cpu", enabled=False):  # elsewhere there is one piece
        return torch.cat(tuple(parts))


def summed_to(t: Tensor, shape: torch.Size) -> Tensor:
    """Undo an expansion: the sum over the axes that were broadcast, in an order of its own."""
    short = (1,) * (t.dim() - len(shape)) + tuple(shape)
    over = [axis for axis, size in enumerate(short) if size != t.shape[axis]]
    kept = [axis for axis in range(t.dim()) if axis not in over]
    if t.numel() == 0:
        return t.new_zeros(shape)
    rows = math.prod(t.shape[axis] for axis in over)
    return column_sum(t.permute(*over, *kept).reshape(rows, -1)).reshape(shape)


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
