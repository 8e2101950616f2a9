"""What runs through the blocks: one residual stream, or ResiDual's two."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from torch import Tensor

from normkit.blocks.norm import TokenNorm
from normkit.spec import PlacementSpec


class TwoStreams(NamedTuple):
    """``main`` is what branches read; ``second`` only adds up what they give."""

    main_BTD: Tensor
    second_BTD: Tensor


# Blocks give back what they were given: one stream is a plain tensor.
Stream: TypeAlias = Tensor | TwoStreams


def enter(x_BTD: Tensor, spec: PlacementSpec) -> Stream:
    """Make the embedding the start of every stream; the second starts from ``c x``.

    Example:
        >>> import torch
        >>> enter(torch.ones(1, 1, 2), PlacementSpec(streams=2, second_stream_scale=0.5)).second_BTD
        tensor([[[0.5000, 0.5000]]])
    """
    if spec.streams == 1:
        return x_BTD
    return TwoStreams(x_BTD, spec.second_stream_scale * x_BTD)


def leave(stream: Stream, final_norm: TokenNorm | None, valid_BT: Tensor | None) -> Tensor:
    """Give what the head reads: ``N(x)`` for one stream, ``z + N(s)`` for two.

    The final norm N stands on the second stream alone, whose first norm it is; the main one was
    normalised by the last branch already. Without a final norm N is the identity.
    """
    last = stream.second_BTD if isinstance(stream, TwoStreams) else stream
    y = last if final_norm is None else final_norm(last, valid_BT)
    return stream.main_BTD + y if isinstance(stream, TwoStreams) else y
