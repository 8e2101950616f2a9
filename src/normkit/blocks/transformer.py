"""A Transformer that takes any norm at any placement: encoder, decoder, causal language model."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from normkit.blocks.attention import Memory, readable
from normkit.blocks.block import Block
from normkit.blocks.config import TransformerConfig
from normkit.blocks.constants import stack_constants
from normkit.blocks.init import (
    init_by_role_,
    init_linear_,
    role_gains,
    scale_last_gains_,
    zero_branches_,
)
from normkit.blocks.norm import make_norm
from normkit.blocks.positions import make_positions, position_numbers
from normkit.blocks.streams import Stream, enter, leave
from normkit.errors import DtypeError, ShapeError, sentence


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
        partner_depth: layers of the other stack of an encoder-decoder model, by which DeepNorm's
            and Sub-LN's constants go; 0 where this stack is alone. A causal stack with a partner
            reads it by cross attention.

    Example:
        >>> config = TransformerConfig(vocabulary=10, width=8, heads=2)
        >>> Transformer(config, causal=True)(torch.zeros(2, 5, dtype=torch.long)).shape
        torch.Size([2, 5, 8])
    """

    def __init__(self, config: TransformerConfig, *, causal: bool, partner_depth: int = 0) -> None:
        super().__init__()
        self.config = config
        self.causal = causal
        spec, width = config.placement_spec, config.width
        constants = stack_constants(config.depth, causal=causal, partner_depth=partner_depth)
        cross = causal and partner_depth > 0
        self.tokens = nn.Embedding(config.vocabulary, width)
        self.positions = make_positions(config.positions, config.max_length, width)
        self.embedding_norm = make_norm(config.norm, width) if spec.embedding_norm else None
        self.blocks = nn.ModuleList(
            Block(config, causal=causal, constants=constants, cross=cross)
            for _ in range(config.depth)
        )
        self.final_norm = make_norm(config.norm, width) if spec.final_norm else None
        init_by_role_(self, role_gains(spec.init, constants))
        if config.zero_init_branches:
            zero_branches_(self)
        if config.last_gain != 1.0:
            scale_last_gains_(self, config.last_gain)

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
        return self.hidden(tokens_BT, valid_BT)

    def hidden(
        self, tokens_BT: Tensor, valid_BT: Tensor | None, memory: Memory | None = None
    ) -> Tensor:
        """Do what :meth:`forward` says; ``memory`` is what a stack with cross attention reads."""
        _check_input(tokens_BT, valid_BT, self.config.max_length)
        x_BTD: Tensor = self.tokens(tokens_BT) + self.positions(
            position_numbers(tokens_BT, valid_BT)
        )
        if self.embedding_norm is not None:
            x_BTD = self.embedding_norm(x_BTD, valid_BT)
        stream: Stream = enter(x_BTD, self.config.placement_spec)
        mask = readable(valid_BT, causal=self.causal)
        for block in self.blocks:
            stream = block(stream, valid_BT, mask, memory)
        return leave(stream, self.final_norm, valid_BT)


class Encoder(Transformer):
    """The bidirectional Transformer: every real token reads every real token.

    ``Encoder(config).forward(tokens_BT, valid_BT=None) -> hidden_BTD``.

    Args:
        config: sizes and choices.
        decoder_layers: layers of the decoder that reads this encoder; 0 where there is none.

    Example:
        >>> config = TransformerConfig(vocabulary=10, width=8, heads=2, placement="post")
        >>> Encoder(config)(torch.zeros(2, 5, dtype=torch.long)).shape
        torch.Size([2, 5, 8])
    """

    def __init__(self, config: TransformerConfig, *, decoder_layers: int = 0) -> None:
        super().__init__(config, causal=False, partner_depth=decoder_layers)


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
