"""The feed-forward branch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from normkit.blocks.norm import TokenNorm
from normkit.errors import check_choice

Activation = Literal["gelu", "relu"]

ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {"gelu": F.gelu, "relu": F.relu}


class FeedForward(nn.Module):
    """``W2 N(a(W1 x + b1)) + b2``, each token by itself; N where it is given.

    The norm inside stands after the activation and before the second matrix, as Sub-LN and
    NormFormer have it.

    Args:
        width: D, features of a token.
        hidden: features between the two matrices.
        activation: ``gelu`` (the exact one) or ``relu``.
        norm_inside: N, over ``hidden`` features; None leaves it out.

    Example:
        >>> import torch
        >>> FeedForward(8, 32)(torch.ones(2, 3, 8)).shape
        torch.Size([2, 3, 8])
    """

    def __init__(
        self,
        width: int,
        hidden: int,
        *,
        activation: Activation = "gelu",
        norm_inside: TokenNorm | None = None,
    ) -> None:
        super().__init__()
        check_choice("FeedForward", "activation", activation, tuple(ACTIVATIONS))
        self.first = nn.Linear(width, hidden)
        self.norm_inside = norm_inside
        self.second = nn.Linear(hidden, width)
        self.activation = activation

    def forward(self, x_BTD: Tensor, valid_BT: Tensor | None = None) -> Tensor:
        """Map (B, T, D) to (B, T, D); ``valid_BT`` goes to the norm inside."""
        y: Tensor = ACTIVATIONS[self.activation](self.first(x_BTD))
        if self.norm_inside is not None:
            y = self.norm_inside(y, valid_BT)
        y = self.second(y)
        return y

    def extra_repr(self) -> str:
        """Show the activation beside the matrices."""
        return f"activation={self.activation!r}"
