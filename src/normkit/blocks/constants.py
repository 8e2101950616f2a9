"""The constants of DeepNorm: alpha on the skip, beta on the initial weights."""

from __future__ import annotations

from typing import NamedTuple

from normkit.errors import OptionError, sentence


class AlphaBeta(NamedTuple):
    """``alpha`` multiplies the skip, ``beta`` the initial weights of FFN, value and output."""

    alpha: float
    beta: float


class DeepNormConstants(NamedTuple):
    """One pair per stack; None for a stack that the model does not have."""

    encoder: AlphaBeta | None
    decoder: AlphaBeta | None


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
    n = _count("encoder_layers", encoder_layers)
    m = _count("decoder_layers", decoder_layers)
    if n and m:
        depth = (n**4 * m) ** (1 / 16)
        encoder = AlphaBeta(alpha=0.81 * depth, beta=0.87 / depth)
        decoder = AlphaBeta(alpha=(3 * m) ** 0.25, beta=(12 * m) ** -0.25)
        return DeepNormConstants(encoder=encoder, decoder=decoder)
    if n:
        return DeepNormConstants(encoder=_one_stack(n), decoder=None)
    if m:
        return DeepNormConstants(encoder=None, decoder=_one_stack(m))
    rule = "a model has at least one layer"
    came = "encoder_layers and decoder_layers are both 0"
    raise OptionError(sentence("deepnorm_constants", rule, came, "Try decoder_layers=12"))


def _one_stack(layers: int) -> AlphaBeta:
    return AlphaBeta(alpha=(2 * layers) ** 0.25, beta=(8 * layers) ** -0.25)


def _count(option: str, value: int) -> int:
    if not isinstance(value, int) or value < 0:
        rule = f"{option} must be an integer of at least 0"
        raise OptionError(sentence("deepnorm_constants", rule, f"{option} is {value!r}"))
    return value
