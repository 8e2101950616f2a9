"""Multi-head attention, to itself and to an encoder, and the mask that says who reads whom."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from normkit.blocks.norm import TokenNorm
from normkit.errors import OptionError, sentence
from normkit.layers import QKNorm


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


class Memory(NamedTuple):
    """What an encoder hands to a decoder: hidden vectors, and True at its real tokens."""

    encoded_BSD: Tensor
    valid_BS: Tensor | None = None


class Attention(nn.Module):
    """What attention to itself and to an encoder share: all that follows queries, keys and values.

    ``concat(h_1, .., h_H)``, with ``h_i = c_i softmax(Q_i K_i^T / sqrt(d)) V_i``, then the norm
    inside, then the output matrix; c and the norm where they are given.

    Args:
        width: D, features of a token.
        heads: number of heads; divides ``width``.
        norm_inside: a norm over all D features before the output matrix; None leaves it out.
        head_scale: learn c, one number a head that starts from 1.
        qk_norm: normalise queries and keys per head by a :class:`~normkit.QKNorm`, by which no
            logit exceeds sqrt(d) while its gains are 1.

    Raises:
        OptionError: ``heads`` does not divide ``width``.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        norm_inside: TokenNorm | None = None,
        head_scale: bool = False,
        qk_norm: bool = False,
    ) -> None:
        super().__init__()
        if width % heads:
            rule = "heads must divide width"
            came = f"width is {width} and heads is {heads}"
            raise OptionError(sentence(type(self).__name__, rule, came))
        self.heads = heads
        self.head_scale = nn.Parameter(torch.ones(heads)) if head_scale else None
        self.norm_inside = norm_inside
        self.qk_norm = QKNorm(width // heads) if qk_norm else None
        self.output = nn.Linear(width, width)

    def split(self, x_BTD: Tensor, parts: int) -> tuple[Tensor, ...]:
        """Cut (B, T, parts D) into ``parts`` tensors (B, heads, T, d)."""
        B, T, width = x_BTD.shape
        x = x_BTD.view(B, T, parts, self.heads, width // parts // self.heads)
        return x.permute(2, 0, 3, 1, 4).unbind()

    def normed(self, q_BHTd: Tensor, k_BHSd: Tensor) -> tuple[Tensor, Tensor]:
        """Give the queries and keys that meet."""
        if self.qk_norm is None:
            return q_BHTd, k_BHSd
        q, k = self.qk_norm(q_BHTd, k_BHSd)
        return q, k

    def finish(self, y_BHTd: Tensor, valid_BT: Tensor | None) -> Tensor:
        """Map what the heads read to (B, T, D)."""
        if self.head_scale is not None:
            y_BHTd = self.head_scale[:, None, None] * y_BHTd
        y_BTD = y_BHTd.transpose(1, 2).flatten(2)
        if self.norm_inside is not None:
            y_BTD = self.norm_inside(y_BTD, valid_BT)
        out: Tensor = self.output(y_BTD)
        return out

    def extra_repr(self) -> str:
        """Show the heads beside the matrices."""
        return f"heads={self.heads}"


class SelfAttention(Attention):
    """Multi-head self-attention, per head ``softmax(Q K^T / sqrt(D / heads)) V``.

    Queries, keys and values come from one matrix ``qkv``: output features [0, D) are the queries,
    [D, 2D) the keys, [2D, 3D) the values, each split into heads in order.

    NormFormer's scale multiplies heads before the output matrix, as its paper writes it; fairseq
    multiplies slices of what comes out of that matrix, which are heads no more.

    Args:
        width: D, features of a token.
        heads: number of heads; divides ``width``.
        causal: no token reads a later one.
        norm_inside: a norm over all D features before the output matrix (Sub-LN).
        head_scale: learn one number a head that starts from 1 (NormFormer).
        qk_norm: normalise queries and keys per head.

    Raises:
        OptionError: ``heads`` does not divide ``width``.

    Example:
        >>> SelfAttention(8, 2, causal=True)(torch.ones(2, 3, 8)).shape
        torch.Size([2, 3, 8])
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        causal: bool,
        norm_inside: TokenNorm | None = None,
        head_scale: bool = False,
        qk_norm: bool = False,
    ) -> None:
        super().__init__(
            width, heads, norm_inside=norm_inside, head_scale=head_scale, qk_norm=qk_norm
        )
        self.causal = causal
        self.qkv = nn.Linear(width, 3 * width)

    def forward(
        self,
        x_BTD: Tensor,
        readable_B1TT: Tensor | None = None,
        valid_BT: Tensor | None = None,
    ) -> Tensor:
        """Map (B, T, D) to (B, T, D).

        Args:
            x_BTD: tokens.
            readable_B1TT: what :func:`readable` returns for the same ``causal``; it holds the
                causal part already. None: every token is real.
            valid_BT: True at real tokens, for the norm inside.
        """
        q, k, v = self.split(self.qkv(x_BTD), 3)
        q, k = self.normed(q, k)
        y = F.scaled_dot_product_attention(
            q, k, v, attn_mask=readable_B1TT, is_causal=self.causal and readable_B1TT is None
        )
        return self.finish(y, valid_BT)

    def extra_repr(self) -> str:
        """Show heads and direction beside the matrices."""
        return f"{super().extra_repr()}, causal={self.causal}"


class CrossAttention(Attention):
    """Attention of a decoder's tokens to all real tokens of an encoder.

    Queries come from the decoder's tokens by ``query``; keys and values from the encoder's by one
    matrix ``key_value``, output features [0, D) the keys, [D, 2D) the values. A source without one
    real token is read as zeros.

    Args:
        width: D, features of a token on either side.
        heads: number of heads; divides ``width``.
        norm_inside: a norm over all D features before the output matrix. Sub-LN has none here.
        qk_norm: normalise queries and keys per head.

    Raises:
        OptionError: ``heads`` does not divide ``width``.

    Example:
        >>> memory = Memory(torch.ones(2, 5, 8))
        >>> CrossAttention(8, 2)(torch.ones(2, 3, 8), memory).shape
        torch.Size([2, 3, 8])
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        norm_inside: TokenNorm | None = None,
        qk_norm: bool = False,
    ) -> None:
        super().__init__(width, heads, norm_inside=norm_inside, qk_norm=qk_norm)
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)

    def forward(self, x_BTD: Tensor, memory: Memory, valid_BT: Tensor | None = None) -> Tensor:
        """Map (B, T, D) to (B, T, D).

        Args:
            x_BTD: the decoder's tokens.
            memory: the encoder's, of the same batch and width.
            valid_BT: True at the decoder's real tokens, for the norm inside.
        """
        (q,) = self.split(self.query(x_BTD), 1)
        k, v = self.split(self.key_value(memory.encoded_BSD), 2)
        q, k = self.normed(q, k)
        mask = None
        if memory.valid_BS is not None:
            real = memory.valid_BS[:, None, :, None]
            v = v.masked_fill(~real, 0.0)
            # Where nothing is real all pads are read, as zeros: a softmax needs one element.
            mask = (real | ~real.any(2, keepdim=True)).transpose(2, 3)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.finish(y, valid_BT)
