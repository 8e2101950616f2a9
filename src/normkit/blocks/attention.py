"""Multi-head self-attention and the mask that says who may read whom."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from normkit.errors import OptionError, sentence


def readable(valid_BT: Tensor | None, *, causal: bool) -> Tensor | None:
    """Say which keys each query may read.

    A query reads real keys (and, if ``causal``, none after itself). It always reads itself: for a
    real token that adds nothing, and a pad that sees no real key keeps a softmax over one element
    where it would otherwise divide 0 by 0.

    Args:
        valid_BT: True at real tokens, or None where all are real.
        causal: no token reads a later one.

    Returns:
        (B, 1, T, T) bool, True where query t may read key s; None for None, where the attention
        needs no mask but its causal flag.

    Example:
        >>> readable(torch.tensor([[True, True, False]]), causal=True)[0, 0].int()
        tensor([[1, 0, 0],
                [1, 1, 0],
                [1, 1, 1]], dtype=torch.int32)
    """
    if valid_BT is None:
        return None
    length = valid_BT.shape[1]
    square = torch.ones(length, length, dtype=torch.bool, device=valid_BT.device)
    keys = valid_BT[:, None, None, :]
    allowed = keys & square.tril() if causal else keys
    return allowed | torch.eye(length, dtype=torch.bool, device=valid_BT.device)


class SelfAttention(nn.Module):
    """Multi-head self-attention, per head ``softmax(Q K^T / sqrt(D / heads)) V``.

    Queries, keys and values come from one matrix ``qkv``: output features [0, D) are the queries,
    [D, 2D) the keys, [2D, 3D) the values, each split into heads in order.

    Args:
        width: D, features of a token.
        heads: number of heads; divides ``width``.
        causal: no token reads a later one.

    Raises:
        OptionError: ``heads`` does not divide ``width``.

    Example:
        >>> SelfAttention(8, 2, causal=True)(torch.ones(2, 3, 8)).shape
        torch.Size([2, 3, 8])
    """

    def __init__(self, width: int, heads: int, *, causal: bool) -> None:
        super().__init__()
        if width % heads:
            rule = "heads must divide width"
            came = f"width is {width} and heads is {heads}"
            raise OptionError(sentence("SelfAttention", rule, came))
        self.heads = heads
        self.causal = causal
        self.qkv = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)

    def forward(self, x_BTD: Tensor, readable_B1TT: Tensor | None = None) -> Tensor:
        """Map (B, T, D) to (B, T, D).

        Args:
            x_BTD: tokens.
            readable_B1TT: what :func:`readable` returns for the same ``causal``; it holds the
                causal part already. None: every token is real.
        """
        B, T, D = x_BTD.shape
        qkv = self.qkv(x_BTD).view(B, T, 3, self.heads, D // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(
            q, k, v, attn_mask=readable_B1TT, is_causal=self.causal and readable_B1TT is None
        )
        out: Tensor = self.output(y.transpose(1, 2).reshape(B, T, D))
        return out

    def extra_repr(self) -> str:
        """Show heads and direction beside the matrices."""
        return f"heads={self.heads}, causal={self.causal}"
