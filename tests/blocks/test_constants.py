"""DeepNorm's alpha and beta: the paper's table, and sentences for what is no depth."""

from __future__ import annotations

import re

import pytest

from normkit.blocks import AlphaBeta, deepnorm_constants
from normkit.errors import OptionError

ONE_STACK = [(6, 1.8612, 0.3799), (12, 2.2134, 0.3195), (24, 2.6321, 0.2686), (100, 3.7606, 0.1880)]
# N, M, encoder alpha and beta, decoder alpha and beta
TWO_STACKS = [
    (6, 6, 1.4179, 0.4970, 2.0598, 0.3433),
    (12, 12, 1.7609, 0.4002, 2.4495, 0.2887),
    (18, 6, 1.8661, 0.3776, 2.0598, 0.3433),
]


@pytest.mark.parametrize(("layers", "alpha", "beta"), ONE_STACK)
def test_one_stack(layers: int, alpha: float, beta: float) -> None:
    """An encoder alone and a decoder alone have the same formula; the other stack has none."""
    encoder = deepnorm_constants(encoder_layers=layers)
    decoder = deepnorm_constants(decoder_layers=layers)
    assert encoder.encoder == decoder.decoder == pytest.approx((alpha, beta), abs=5e-5)
    assert encoder.decoder is None
    assert decoder.encoder is None


@pytest.mark.parametrize(("n", "m", "ea", "eb", "da", "db"), TWO_STACKS)
def test_two_stacks(n: int, m: int, ea: float, eb: float, da: float, db: float) -> None:
    """The encoder's pair depends on both depths, the decoder's on its own."""
    both = deepnorm_constants(encoder_layers=n, decoder_layers=m)
    assert both.encoder == pytest.approx((ea, eb), abs=5e-5)
    assert both.decoder == pytest.approx((da, db), abs=5e-5)


def test_names() -> None:
    """The numbers have names."""
    pair = deepnorm_constants(encoder_layers=8).encoder
    assert isinstance(pair, AlphaBeta)
    assert (pair.alpha, pair.beta) == (2.0, 64**-0.25)


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        (
            {},
            "deepnorm_constants: a model has at least one layer; encoder_layers and decoder_layers"
            " are both 0. Try decoder_layers=12.",
        ),
        (
            {"encoder_layers": -1},
            "deepnorm_constants: encoder_layers must be an integer of at least 0;"
            " encoder_layers is -1.",
        ),
        (
            {"decoder_layers": 2.5},
            "deepnorm_constants: decoder_layers must be an integer of at least 0;"
            " decoder_layers is 2.5.",
        ),
    ],
)
def test_errors(counts: dict[str, int], text: str) -> None:
    """Depths that mean nothing."""
    with pytest.raises(OptionError, match=f"^{re.escape(text)}$"):
        deepnorm_constants(**counts)
