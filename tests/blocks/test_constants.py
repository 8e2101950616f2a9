"""Constants by depth: the papers' tables, and sentences for what is no depth."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from normkit.blocks import AlphaBeta, deepnorm_constants, layer_scale_start, sub_ln_constants
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


@pytest.mark.parametrize(
    ("layers", "gamma"), [(1, 0.8326), (6, 1.5764), (12, 1.7827), (24, 1.9675)]
)
def test_sub_ln_of_one_stack(layers: int, gamma: float) -> None:
    """sqrt(ln 2N), whichever stack it is; the other has none."""
    for option, side in (("encoder_layers", 0), ("decoder_layers", 1)):
        found = sub_ln_constants(**{option: layers})
        assert found[side] == pytest.approx(gamma, abs=5e-5)
        assert found[1 - side] is None


@pytest.mark.parametrize(
    ("n", "m", "encoder", "decoder"),
    [(6, 6, 1.5473, 1.7001), (12, 12, 1.9484, 1.8930), (18, 6, 1.8581, 1.7001)],
)
def test_sub_ln_of_two_stacks(n: int, m: int, encoder: float, decoder: float) -> None:
    """The encoder's depends on both depths, the decoder's on its own."""
    both = sub_ln_constants(encoder_layers=n, decoder_layers=m)
    assert both == pytest.approx((encoder, decoder), abs=5e-5)


def test_layer_scale_start() -> None:
    """The table ends at 18, at 24, and nowhere."""
    depths = {1: 0.1, 12: 0.1, 18: 0.1, 19: 1e-5, 24: 1e-5, 25: 1e-6, 36: 1e-6, 48: 1e-6}
    assert {depth: layer_scale_start(depth) for depth in depths} == depths


def test_names() -> None:
    """The numbers have names."""
    pair = deepnorm_constants(encoder_layers=8).encoder
    assert isinstance(pair, AlphaBeta)
    assert (pair.alpha, pair.beta) == (2.0, 64**-0.25)


@pytest.mark.parametrize("constants", [deepnorm_constants, sub_ln_constants])
@pytest.mark.parametrize(
    ("counts", "text"),
    [
        (
            {},
            "a model has at least one layer; encoder_layers and decoder_layers are both 0."
            " Try decoder_layers=12.",
        ),
        (
            {"encoder_layers": -1},
            "encoder_layers must be an integer of at least 0; encoder_layers is -1.",
        ),
        (
            {"decoder_layers": 2.5},
            "decoder_layers must be an integer of at least 0; decoder_layers is 2.5.",
        ),
    ],
)
def test_errors(constants: Callable[..., object], counts: dict[str, int], text: str) -> None:
    """Depths that mean nothing."""
    with pytest.raises(OptionError, match=f"^{re.escape(f'{constants.__name__}: {text}')}$"):
        constants(**counts)
