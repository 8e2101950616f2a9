"""One layer of a Transformer."""

from __future__ import annotations

from functools import partial

from torch import Tensor, nn

from normkit.blocks.attention import CrossAttention, Memory, SelfAttention
from normkit.blocks.config import TransformerConfig
from normkit.blocks.constants import StackConstants
from normkit.blocks.ffn import FeedForward
from normkit.blocks.norm import TokenNorm, make_norm
from normkit.blocks.placement import Residual
from normkit.blocks.streams import Stream
from normkit.spec.placement import Branch


class Block(nn.Module):
    """One layer: attention, cross attention in a decoder, feed-forward, each in its `Residual`.

    Args:
        config: the model's sizes and choices.
        causal: no token reads a later one.
        constants: what depth sets; alpha is DeepNorm's factor on the skip.
        cross: read an encoder between attention and feed-forward.
    """

    def __init__(
        self,
        config: TransformerConfig,
        *,
        causal: bool,
        constants: StackConstants,
        cross: bool = False,
    ) -> None:
        super().__init__()
        spec, width, heads = config.placement_spec, config.width, config.heads
        around = partial(
            Residual,
            spec,
            norm=config.norm,
            width=width,
            alpha=constants.alpha,
            dropout=config.dropout,
            depth=config.depth,
        )
        self.attention = SelfAttention(
            width,
            heads,
            causal=causal,
            norm_inside=_inside(config, "attention", width),
            head_scale=spec.head_scale,
            qk_norm=config.qk_norm,
        )
        self.around_attention = around("attention")
        self.cross_attention: CrossAttention | None = None
        if cross:
            inner = _inside(config, "cross_attention", width)
            self.cross_attention = CrossAttention(
                width, heads, norm_inside=inner, qk_norm=config.qk_norm
            )
            self.around_cross_attention = around("cross_attention")
        inner = _inside(config, "ffn", config.hidden)
        self.ffn = FeedForward(
            width, config.hidden, activation=config.activation, norm_inside=inner
        )
        self.around_ffn = around("ffn")

    def forward(
        self,
        x: Stream,
        valid_BT: Tensor | None = None,
        readable_B1TT: Tensor | None = None,
        memory: Memory | None = None,
    ) -> Stream:
        """Map the stream to the stream.

        Args:
            x: (B, T, D), or two such where the placement has two streams.
            valid_BT: True at real tokens.
            readable_B1TT: see :func:`normkit.blocks.readable`.
            memory: the encoder's vectors, for a block with cross attention.
        """
        attend = partial(self.attention, readable_B1TT=readable_B1TT, valid_BT=valid_BT)
        x = self.around_attention(x, attend, valid_BT)
        if self.cross_attention is not None:
            read = partial(self.cross_attention, memory=memory, valid_BT=valid_BT)
            x = self.around_cross_attention(x, read, valid_BT)
        x = self.around_ffn(x, partial(self.ffn, valid_BT=valid_BT), valid_BT)
        return x


def _inside(config: TransformerConfig, branch: Branch, features: int) -> TokenNorm | None:
    """Make the norm before the last matrix of a branch, where the placement has one."""
    here = branch in config.placement_spec.norm_inside
    return make_norm(config.norm, features) if here else None
