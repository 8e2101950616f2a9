"""TransformerConfig: each field that means nothing gets its sentence."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any

import pytest

from normkit.blocks import TransformerConfig, token_norms
from normkit.errors import OptionError, choices
from normkit.spec import NORMS, PlacementSpec, ResidualScale
from normkit.spec.placement import ALL_BRANCHES

INTEGER = "TransformerConfig: {0} must be an integer of at least 1; {0} is {1}."
LAST = "TransformerConfig: last_gain needs a norm with a gain at the end of every branch; "
ZERO = "Try zero_init_branches=True."
TWICE = "TransformerConfig: branches start from 0 by one factor, not by two; "


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
            f"norm must be {choices(NORMS)}; got 'rmsnorm'. Did you mean 'rms_norm'?",
        ),
        (
            {"norm": "group_norm"},
            f"TransformerConfig: on tokens norm must be {choices(token_norms())};"
            " 'group_norm' shares statistics over group and space.",
        ),
        ({"last_gain": 1.5}, "TransformerConfig: last_gain must lie in [0, 1]; last_gain is 1.5."),
        (
            {"last_gain": math.nan},
            "TransformerConfig: last_gain must lie in [0, 1]; last_gain is nan.",
        ),
        ({"last_gain": 0.1}, f"{LAST}norm is 'layer_norm' and norm_out is (). {ZERO}"),
        (
            {"last_gain": 0.1, "placement": "peri", "norm": "no_norm"},
            f"{LAST}norm is 'no_norm' and norm_out is {ALL_BRANCHES}. {ZERO}",
        ),
        (
            {"last_gain": 0.0, "placement": "normformer"},
            f"{LAST}norm is 'layer_norm' and norm_out is ('attention',).",
        ),
        (
            {"zero_init_branches": True, "placement": "sandwich"},
            "TransformerConfig: zero_init_branches needs branches that no norm follows; norm is"
            f" 'layer_norm' and norm_out is {ALL_BRANCHES}. Try last_gain=0.0.",
        ),
        (
            {"zero_init_branches": True, "placement": "normformer"},
            "TransformerConfig: zero_init_branches needs branches that no norm follows; norm is"
            " 'layer_norm' and norm_out is ('attention',).",
        ),
        (
            {"zero_init_branches": True, "placement": "rezero"},
            f"{TWICE}branch_scale starts from 0 and zero_init_branches too. Leave one of them out.",
        ),
        (
            {
                "last_gain": 0.0,
                "placement": PlacementSpec(
                    norm_out=ALL_BRANCHES,
                    branch_scale=ResidualScale(rule="learned_vector", value=0.0),
                ),
            },
            f"{TWICE}branch_scale starts from 0 and last_gain too. Leave one of them out.",
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
