"""A Transformer that reads one row of tokens and continues another."""

from __future__ import annotations

from torch import Tensor, nn

from normkit.blocks.attention import Memory
from normkit.blocks.config import TransformerConfig
from normkit.blocks.init import init_linear_
from normkit.blocks.transformer import Encoder, Transformer
from normkit.errors import OptionError, ShapeError, sentence


class EncoderDecoder(nn.Module):
    """An encoder over the source, a causal decoder over the target that reads it, and a head.

    Each stack has a configuration of its own, so that depths, norms and placements may differ
    (PowerNorm's paper keeps LayerNorm in the decoder). DeepNorm's and Sub-LN's constants go by
    both depths, see :func:`~normkit.blocks.deepnorm_constants`. Every block of the decoder reads
    what the encoder gives after its final norm, at real tokens of the source alone; wherever pads
    stand in either row, the logits at real tokens of the target stay as they are.

    Args:
        encoder: sizes and choices of the encoder; its vocabulary is the source's.
        decoder: the decoder's, of the same width; None takes the encoder's.

    Raises:
        OptionError: the widths differ.

    Example:
        >>> import torch
        >>> model = EncoderDecoder(TransformerConfig(vocabulary=10, width=8, heads=2))
        >>> source, target = torch.zeros(2, 5, dtype=torch.long), torch.ones(2, 3, dtype=torch.long)
        >>> model(source, target).shape
        torch.Size([2, 3, 10])
    """

    def __init__(
        self, encoder: TransformerConfig, decoder: TransformerConfig | None = None
    ) -> None:
        super().__init__()
        decoder = encoder if decoder is None else decoder
        if encoder.width != decoder.width:
            rule = "encoder and decoder must have one width"
            came = f"encoder.width is {encoder.width} and decoder.width is {decoder.width}"
            raise OptionError(sentence("EncoderDecoder", rule, came))
        self.encoder = Encoder(encoder, decoder_layers=decoder.depth)
        self.decoder = Transformer(decoder, causal=True, partner_depth=encoder.depth)
        self.head = nn.Linear(decoder.width, decoder.vocabulary)
        init_linear_(self.head)

    def forward(
        self,
        source_BS: Tensor,
        target_BT: Tensor,
        source_valid_BS: Tensor | None = None,
        target_valid_BT: Tensor | None = None,
    ) -> Tensor:
        """Give (B, T, V) logits for the token after each target token.

        Args:
            source_BS, target_BT: int64 or int32 ids, of one batch.
            source_valid_BS, target_valid_BT: True at real tokens; None where every token is real.

        Raises:
            ShapeError: the batches differ, or see :meth:`Transformer.forward`.
            DtypeError: see :meth:`Transformer.forward`.
        """
        if source_BS.shape[:1] != target_BT.shape[:1]:
            rule = "source and target must have as many rows"
            came = f"source is {tuple(source_BS.shape)} and target is {tuple(target_BT.shape)}"
            raise ShapeError(sentence("EncoderDecoder", rule, came))
        memory = Memory(self.encoder(source_BS, source_valid_BS), source_valid_BS)
        logits: Tensor = self.head(self.decoder.hidden(target_BT, target_valid_BT, memory))
        return logits
