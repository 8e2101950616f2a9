"""Where a token stands: position numbers, learned and sinusoidal vectors."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from normkit.errors import check_choice

PositionKind = Literal["learned", "sinusoidal"]


def position_numbers(tokens_BT: Tensor, valid_BT: Tensor | None) -> Tensor:
    """Number the real tokens 0, 1, 2, ... from the left, so that pads take no number.

    A row then computes the same wherever its pads stand.

    Returns:
        (T,) where every token is real; else (B, T), in which a pad repeats the number of the real
        token before it (0 where there is none).

    Example:
        >>> valid = torch.tensor([[False, True, True]])
        >>> position_numbers(torch.zeros(1, 3), valid)
        tensor([[0, 0, 1]])
    """
    if valid_BT is None:
        return torch.arange(tokens_BT.shape[1], device=tokens_BT.device)
    return (valid_BT.cumsum(1) - 1).clamp_min(0)


def sinusoidal_table(length: int, width: int) -> Tensor:
    """Give the fixed vectors ``p[t, 2i] = sin(t / 10000^(2i/D))``, ``p[t, 2i+1] = cos(same)``.

    The mean square of a row is exactly 1/2 for even ``width``, since sin^2 + cos^2 = 1.

    Args:
        length: number of positions.
        width: D, features of a token; an odd one ends on a sine.

    Returns:
        (length, D), computed in float64, rounded to the default dtype.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.5.

    Example:
        >>> sinusoidal_table(2, 2)
        tensor([[0.0000, 1.0000],
                [0.8415, 0.5403]])
    """
    feature = torch.arange(width, dtype=torch.float64)
    even = feature - feature % 2
    angle = torch.arange(length, dtype=torch.float64)[:, None] * 10000.0 ** (-even / width)
    table = torch.where(feature % 2 == 0, angle.sin(), angle.cos())
    return table.to(torch.get_default_dtype())


class LearnedPositions(nn.Embedding):
    """One trained vector per position number; its own class because it starts unlike tokens do."""


class SinusoidalPositions(nn.Module):
    """:func:`sinusoidal_table` as a buffer that is looked up by position number."""

    table: Tensor

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        self.register_buffer("table", sinusoidal_table(length, width))

    def forward(self, numbers: Tensor) -> Tensor:
        """Map position numbers of any shape to vectors (..., D)."""
        return self.table[numbers]


def make_positions(kind: PositionKind, length: int, width: int) -> nn.Module:
    """Build a module that maps position numbers to vectors of ``width`` features.

    Raises:
        OptionError: ``kind`` is neither ``learned`` nor ``sinusoidal``.

    Example:
        >>> make_positions("learned", 16, 8)
        LearnedPositions(16, 8)
    """
    check_choice("make_positions", "positions", kind, ("learned", "sinusoidal"))
    if kind == "learned":
        return LearnedPositions(length, width)
    return SinusoidalPositions(length, width)
