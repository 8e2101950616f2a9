"""A Transformer that takes any norm at any placement: causal language model and encoder."""

from __future__ import annotations

from functools import partial
from typing import cast

import torch
from torch import Tensor, nn

from normkit.blocks.attention import SelfAttention, readable
from normkit.blocks.config import TransformerConfig
from normkit.blocks.constants import AlphaBeta, deepnorm_constants
from normkit.blocks.ffn import FeedForward
from normkit.blocks.init import init_by_role_, init_linear_, role_gains
from normkit.blocks.norm import make_norm
from normkit.blocks.placement import Residual
from normkit.blocks.positions import make_positions, position_numbers
from normkit.errors import DtypeError, ShapeError, sentence


class Block(nn.Module):
    """One layer: attention, then feed-forward, each inside its :class:`Residual`.

    Args:
        config: the model's sizes and choices.
        causal: no token reads a later one.
        alpha: DeepNorm's factor on the skip, for placements that ask for it.
    """

    def __init__(self, config: TransformerConfig, *, causal: bool, alpha: float) -> None:
        super().__init__()
        around = partial(
            Residual,
            config.placement_spec,
            norm=config.norm,
            width=config.width,
            alpha=alpha,
            dropout=config.dropout,
        )
        self.attention = SelfAttention(config.width, config.heads, causal=causal)
        self.around_attention = around("attention")
        self.ffn = FeedForward(config.width, config.hidden, activation=config.activation)
        self.around_ffn = around("ffn")

    def forward(
        self, x_BTD: Tensor, valid_BT: Tensor | None = None, readable_B1TT: Tensor | None = None
    ) -> Tensor:
        """Map (B, T, D) to (B, T, D); see :func:`normkit.blocks.attention.readable`."""
        attend = partial(self.attention, readable_B1TT=readable_B1TT)
        x: Tensor = self.around_attention(x_BTD, attend, valid_BT)
        x = self.around_ffn(x, self.ffn, valid_BT)
        return x


class Transformer(nn.Module):
    """Embedding, blocks, and whatever norms the placement puts around them.

    A row of tokens gives the same at its real tokens wherever its pads stand and whatever they
    hold: keys of pads are not read, pads take no position number, and a norm that shares
    statistics is given ``valid`` (``batch_norm``, the naive one, cannot use it). What comes out at
    pads is finite and means nothing.

    Args:
        config: sizes and choices.
        causal: no token reads a later one. A norm over the batch breaks this in training, as its
            statistics are taken over time too.

    Example:
        >>> config = TransformerConfig(vocabulary=10, width=8, heads=2)
        >>> Transformer(config, causal=True)(torch.zeros(2, 5, dtype=torch.long)).shape
        torch.Size([2, 5, 8])
    """

    def __init__(self, config: TransformerConfig, *, causal: bool) -> None:
        super().__init__()
        self.config = config
        self.causal = causal
        spec, width = config.placement_spec, config.width
        constants = _constants(config.depth, causal=causal)
        self.tokens = nn.Embedding(config.vocabulary, width)
        self.positions = make_positions(config.positions, config.max_length, width)
        self.embedding_norm = make_norm(config.norm, width) if spec.embedding_norm else None
        self.blocks = nn.ModuleList(
            Block(config, causal=causal, alpha=constants.alpha) for _ in range(config.depth)
        )
        self.final_norm = make_norm(config.norm, width) if spec.final_norm else None
        init_by_role_(self, role_gains(spec.init, beta=constants.beta))

    def forward(self, tokens_BT: Tensor, valid_BT: Tensor | None = None) -> Tensor:
        """Map token ids to hidden vectors.

        Args:
            tokens_BT: int64 or int32 ids, T at most ``config.max_length``.
            valid_BT: bool, True at real tokens; None where every token is real.

        Returns:
            (B, T, D).

        Raises:
            ShapeError: tokens have not two axes, are too long, or ``valid`` has another shape.
            DtypeError: tokens are not integers, or ``valid`` is not bool.
        """
        _check_input(tokens_BT, valid_BT, self.config.max_length)
        x_BTD: Tensor = self.tokens(tokens_BT) + self.positions(
            position_numbers(tokens_BT, valid_BT)
        )
        if self.embedding_norm is not None:
            x_BTD = self.embedding_norm(x_BTD, valid_BT)
        mask = readable(valid_BT, causal=self.causal)
        for block in self.blocks:
            x_BTD = block(x_BTD, valid_BT, mask)
        return x_BTD if self.final_norm is None else self.final_norm(x_BTD, valid_BT)


class Encoder(Transformer):
    """The bidirectional Transformer: every real token reads every real token.

    ``Encoder(config).forward(tokens_BT, valid_BT=None) -> hidden_BTD``.

    Example:
        >>> config = TransformerConfig(vocabulary=10, width=8, heads=2, placement="post")
        >>> Encoder(config)(torch.zeros(2, 5, dtype=torch.long)).shape
        torch.Size([2, 5, 8])
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config, causal=False)


class CausalLM(nn.Module):
    """A causal Transformer and a head that gives logits for the next token.

    The head is a matrix of its own (not the embedding's transpose) with a bias: LayerNorm and
    BatchNorm have a bias with which a model can learn the frequencies of tokens, RMSNorm has none,
    and with a bias in the head this does not decide a comparison. It starts like any projection.

    ``CausalLM(config).forward(tokens_BT, valid_BT=None) -> logits_BTV``.

    Example:
        >>> model = CausalLM(TransformerConfig(vocabulary=10, width=8, heads=2, norm="rms_norm"))
        >>> model(torch.zeros(2, 5, dtype=torch.long)).shape
        torch.Size([2, 5, 10])
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.transformer = Transformer(config, causal=True)
        self.head = nn.Linear(config.width, config.vocabulary)
        init_linear_(self.head)

    def forward(self, tokens_BT: Tensor, valid_BT: Tensor | None = None) -> Tensor:
        """Give (B, T, V) logits; see :meth:`Transformer.forward` for arguments and errors."""
        logits: Tensor = self.head(self.transformer(tokens_BT, valid_BT))
        return logits


def _constants(depth: int, *, causal: bool) -> AlphaBeta:
    """Give DeepNorm's pair for one stack of ``depth`` layers."""
    if causal:
        return cast(AlphaBeta, deepnorm_constants(decoder_layers=depth).decoder)
    return cast(AlphaBeta, deepnorm_constants(encoder_layers=depth).encoder)


def _check_input(tokens_BT: Tensor, valid_BT: Tensor | None, max_length: int) -> None:
    if tokens_BT.dim() != 2:
        rule = "tokens must have 2 axes, (batch, position)"
        raise ShapeError(sentence("Transformer", rule, f"tokens is {tuple(tokens_BT.shape)}"))
    if tokens_BT.dtype not in (torch.int32, torch.int64):
        rule = "tokens must be int64 or int32"
        raise DtypeError(sentence("Transformer", rule, f"tokens is {tokens_BT.dtype}"))
    if tokens_BT.shape[1] > max_length:
        rule = f"a row holds at most max_length={max_length} tokens"
        came = f"tokens is {tuple(tokens_BT.shape)}"
        fix = f"Try TransformerConfig(max_length={tokens_BT.shape[1]})"
        raise ShapeError(sentence("Transformer", rule, came, fix))
    if valid_BT is None:
        return
    if valid_BT.dtype != torch.bool:
        rule = "valid must be bool, True at real tokens"
        came = f"valid is {valid_BT.dtype}"
        raise DtypeError(sentence("Transformer", rule, came, "Try valid.bool()"))
    if valid_BT.shape != tokens_BT.shape:
        rule = "valid must have the shape of tokens"
        came = f"valid is {tuple(valid_BT.shape)} and tokens is {tuple(tokens_BT.shape)}"
        raise ShapeError(sentence("Transformer", rule, came))
