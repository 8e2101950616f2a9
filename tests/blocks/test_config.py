"""TransformerConfig: each field that means nothing gets its sentence."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any

import pytest

from normkit.blocks import TransformerConfig
from normkit.errors import OptionError
from normkit.spec import PlacementSpec
from normkit.spec.placement import ALL_BRANCHES

INTEGER = "TransformerConfig: {0} must be an integer of at least 1; {0} is {1}."


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"depth": 0}, INTEGER.format("depth", 0)),
        ({"vocabulary": -3}, INTEGER.format("vocabulary", -3)),
        ({"width": 12.0}, INTEGER.format("width", 12.0)),
        ({"heads": True}, INTEGER.format("heads", True)),
        ({"ffn_width": 0}, INTEGER.format("ffn_width", 0)),
        ({"max_length": "8"}, INTEGER.format("max_length", "'8'")),
        (
            {"width": 30, "heads": 4},
            "TransformerConfig: heads must divide width; width is 30 and heads is 4. Try width=32.",
        ),
        (
            {"width": 2, "heads": 4},
            "TransformerConfig: heads must divide width; width is 2 and heads is 4. Try width=4.",
        ),
        ({"dropout": 1.0}, "TransformerConfig: dropout must lie in [0, 1); dropout is 1.0."),
        ({"dropout": -0.1}, "TransformerConfig: dropout must lie in [0, 1); dropout is -0.1."),
        ({"dropout": math.nan}, "TransformerConfig: dropout must lie in [0, 1); dropout is nan."),
        (
            {"positions": "rotary"},
            "TransformerConfig: positions must be 'learned' or 'sinusoidal';"
            " positions is 'rotary'.",
        ),
        (
            {"activation": "tanh"},
            "TransformerConfig: activation must be 'gelu' or 'relu'; activation is 'tanh'.",
        ),
        (
            {"norm": "rmsnorm"},
            "norm must be 'layer_norm', 'rms_norm', 'batch_norm', 'masked_batch_norm' or"
            " 'no_norm'; got 'rmsnorm'. Did you mean 'rms_norm'?",
        ),
    ],
)
def test_errors(options: dict[str, Any], text: str) -> None:
    """The whole sentence."""
    with pytest.raises(OptionError, match=f"^{re.escape(text)}$"):
        TransformerConfig(**{"vocabulary": 10, **options})


def test_unknown_placement() -> None:
    """The registry's own sentence."""
    with pytest.raises(OptionError, match=r"^placement must be .*got 'pre-ln'\."):
        TransformerConfig(vocabulary=10, placement="pre-ln")


def test_ffn_width() -> None:
    """Four times the width unless said otherwise."""
    assert TransformerConfig(vocabulary=10, width=64).hidden == 256
    assert TransformerConfig(vocabulary=10, width=64, ffn_width=100).hidden == 100


def test_placement_by_name_or_spec() -> None:
    """A PlacementSpec stands wherever a name does."""
    spec = PlacementSpec(norm_in=ALL_BRANCHES, final_norm=True)
    assert TransformerConfig(vocabulary=10, placement=spec).placement_spec == spec
    assert TransformerConfig(vocabulary=10, placement="pre").placement_spec == spec


def test_frozen() -> None:
    """A configuration cannot drift from the model that it made."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        TransformerConfig(vocabulary=10).depth = 3  # type: ignore[misc]
