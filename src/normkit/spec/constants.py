"""Constants by depth: DeepNorm's alpha and beta, Sub-LN's gamma, where LayerScale starts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, cast

from normkit.errors import OptionError, sentence


class AlphaBeta(NamedTuple):
    """``alpha`` multiplies the skip, ``beta`` the initial weights of FFN, value and output."""

    alpha: float
    beta: float


class DeepNormConstants(NamedTuple):
    """One pair per stack; None for a stack that the model does not have."""

    encoder: AlphaBeta | None
    decoder: AlphaBeta | None


class SubLNConstants(NamedTuple):
    """Sub-LN's gamma, one per stack; None for a stack that the model does not have."""

    encoder: float | None
    decoder: float | None


@dataclass(frozen=True, kw_only=True)
class StackConstants:
    """What depth sets in one stack: DeepNorm's ``alpha`` and ``beta``, Sub-LN's ``gamma``."""

    alpha: float
    beta: float
    gamma: float


def deepnorm_constants(*, encoder_layers: int = 0, decoder_layers: int = 0) -> DeepNormConstants:
    """Give alpha and beta of DeepNorm for a model of N encoder and M decoder layers.

    ==================  ====================  =====================  ==============  ==============
    stack               encoder alpha         encoder beta           decoder alpha   decoder beta
    ==================  ====================  =====================  ==============  ==============
    encoder only        (2N)^(1/4)            (8N)^(-1/4)
    decoder only                                                     (2M)^(1/4)      (8M)^(-1/4)
    encoder-decoder     0.81 (N^4 M)^(1/16)   0.87 (N^4 M)^(-1/16)   (3M)^(1/4)      (12M)^(-1/4)
    ==================  ====================  =====================  ==============  ==============

    N and M count layers; alpha acts on every sub-layer of a layer.

    Args:
        encoder_layers: N, 0 where there is no encoder.
        decoder_layers: M, 0 where there is no decoder.

    Raises:
        OptionError: a count is not an integer of at least 0, or both are 0.

    Source: Wang et al. 2022, arXiv:2203.00555, table of section 4.

    Example:
        >>> pair = deepnorm_constants(decoder_layers=6).decoder
        >>> round(pair.alpha, 4), round(pair.beta, 4)
        (1.8612, 0.3799)
    """
    n, m = _counts("deepnorm_constants", encoder_layers, decoder_layers)
    if n and m:
        depth = (n**4 * m) ** (1 / 16)
        encoder = AlphaBeta(alpha=0.81 * depth, beta=0.87 / depth)
        decoder = AlphaBeta(alpha=(3 * m) ** 0.25, beta=(12 * m) ** -0.25)
        return DeepNormConstants(encoder=encoder, decoder=decoder)
    return DeepNormConstants(
        encoder=_one_stack(n) if n else None, decoder=_one_stack(m) if m else None
    )


def sub_ln_constants(*, encoder_layers: int = 0, decoder_layers: int = 0) -> SubLNConstants:
    """Give gamma of Sub-LN for a model of N encoder and M decoder layers.

    ==================  ===============================  ===============
    stack               encoder gamma                    decoder gamma
    ==================  ===============================  ===============
    encoder only        sqrt(ln(2N))
    decoder only                                         sqrt(ln(2M))
    encoder-decoder     sqrt(ln(3M) ln(2N) / 3)          sqrt(ln(3M))
    ==================  ===============================  ===============

    Gamma multiplies the initial weights of the feed-forward and of the value and output matrices
    of self-attention; those of cross attention keep a gain of 1. It is below 1 for one layer alone.

    Args:
        encoder_layers: N, 0 where there is no encoder.
        decoder_layers: M, 0 where there is no decoder.

    Raises:
        OptionError: a count is not an integer of at least 0, or both are 0.

    Source: Wang et al. 2022, arXiv:2210.06423, section 2.3; that cross attention is left out is
    read from the authors' torchscale.

    Example:
        >>> round(sub_ln_constants(decoder_layers=6).decoder, 4)
        1.5764
    """
    n, m = _counts("sub_ln_constants", encoder_layers, decoder_layers)
    if n and m:
        encoder = math.sqrt(math.log(3 * m) * math.log(2 * n) / 3)
        return SubLNConstants(encoder=encoder, decoder=math.sqrt(math.log(3 * m)))
    return SubLNConstants(
        encoder=math.sqrt(math.log(2 * n)) if n else None,
        decoder=math.sqrt(math.log(2 * m)) if m else None,
    )


def layer_scale_start(depth: int) -> float:
    """Give the value that LayerScale's vectors start from: 0.1, 1e-5 or 1e-6.

    0.1 up to 18 layers, 1e-5 up to 24, 1e-6 beyond. ``depth`` counts the layers of the whole stack,
    so all of its vectors start alike. A widely copied implementation (vit-pytorch's CaiT) looks
    its table up with each layer's own number instead: the first 18 layers of any model start
    from 0.1.

    Source: Touvron et al. 2021, arXiv:2103.17239, section 2.

    Example:
        >>> layer_scale_start(18), layer_scale_start(24), layer_scale_start(36)
        (0.1, 1e-05, 1e-06)
    """
    if depth <= 18:
        return 0.1
    return 1e-5 if depth <= 24 else 1e-6


def stack_constants(depth: int, *, causal: bool, partner_depth: int = 0) -> StackConstants:
    """Gather the constants of one stack.

    Args:
        depth: its layers.
        causal: whether it is the decoder; else it is the encoder.
        partner_depth: layers of the other stack, 0 where this one is alone.

    Example:
        >>> round(stack_constants(6, causal=True, partner_depth=6).alpha, 3)
        2.06
    """
    n, m = (partner_depth, depth) if causal else (depth, partner_depth)
    deepnorm = deepnorm_constants(encoder_layers=n, decoder_layers=m)
    sub_ln = sub_ln_constants(encoder_layers=n, decoder_layers=m)
    # This stack has layers, so its entry is not None.
    pair = cast(AlphaBeta, deepnorm.decoder if causal else deepnorm.encoder)
    gamma = cast(float, sub_ln.decoder if causal else sub_ln.encoder)
    return StackConstants(alpha=pair.alpha, beta=pair.beta, gamma=gamma)


def _one_stack(layers: int) -> AlphaBeta:
    return AlphaBeta(alpha=(2 * layers) ** 0.25, beta=(8 * layers) ** -0.25)


def _counts(who: str, encoder_layers: int, decoder_layers: int) -> tuple[int, int]:
    counts = {"encoder_layers": encoder_layers, "decoder_layers": decoder_layers}
    for option, value in counts.items():
        if not isinstance(value, int) or value < 0:
            rule = f"{option} must be an integer of at least 0"
            raise OptionError(sentence(who, rule, f"{option} is {value!r}"))
    if not any(counts.values()):
        rule = "a model has at least one layer"
        came = "encoder_layers and decoder_layers are both 0"
        raise OptionError(sentence(who, rule, came, "Try decoder_layers=12"))
    return encoder_layers, decoder_layers
