"""The feed-forward branch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from normkit.errors import check_choice

Activation = Literal["gelu", "relu"]

ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {"gelu": F.gelu, "relu": F.relu}


class FeedForward(nn.Module):
    """``W2 a(W1 x + b1) + b2``, each token by itself.

    Args:
        width: D, features of a token.
        hidden: features between the two matrices.
        activation: ``gelu`` (the exact one) or ``relu``.

    Example:
        >>> import torch
        >>> FeedForward(8, 32)(torch.ones(2, 3, 8)).shape
        torch.Size([2, 3, 8])
    """

    def __init__(self, width: int, hidden: int, *, activation: Activation = "gelu") -> None:
        super().__init__()
        check_choice("FeedForward", "activation", activation, tuple(ACTIVATIONS))
        self.first = nn.Linear(width, hidden)
        self.second = nn.Linear(hidden, width)
        self.activation = activation

    def forward(self, x_BTD: Tensor) -> Tensor:
        """Map (B, T, D) to (B, T, D)."""
        y: Tensor = self.second(ACTIVATIONS[self.activation](self.first(x_BTD)))
        return y

    def extra_repr(self) -> str:
        """Show the activation beside the matrices."""
        return f"activation={self.activation!r}"
