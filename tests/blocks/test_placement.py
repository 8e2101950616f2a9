"""The residual connection: order of its steps, its scales, and what it refuses to ignore."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

import pytest
import torch
from torch import Tensor

from normkit.blocks import CausalLM, Residual, TransformerConfig, check_placement
from normkit.errors import OptionError
from normkit.spec import PLACEMENTS, InitGain, PlacementSpec, ResidualScale

BUILT = ("post", "pre", "deepnorm", "sandwich", "peri")
TRY = "Try placement 'post', 'pre', 'deepnorm', 'sandwich' or 'peri'."


def around_ffn(placement: str, dropout: float) -> Residual:
    """Build the connection with norms whose bias is not 0, so that a norm of 0 is not 0."""
    spec = PLACEMENTS[placement].spec
    module = Residual(spec, "ffn", norm="layer_norm", width=4, alpha=2.0, dropout=dropout)
    for norm in module.modules():
        if isinstance(norm, torch.nn.LayerNorm):
            torch.nn.init.constant_(norm.bias, 0.5)
    return module


@pytest.mark.parametrize("placement", BUILT)
def test_everything_dropped_leaves_the_skip(placement: str) -> None:
    """Dropout stands after the sub-layer and its norm, before the add; the skip is never dropped.

    A dropout before ``norm_out`` would leave that norm's bias, one after the add nothing.
    """
    module = around_ffn(placement, dropout=1 - 1e-9)
    x = torch.randn(2, 3, 4)
    skip = 2.0 * x if placement == "deepnorm" else x
    want = skip if module.norm_sum is None else module.norm_sum(skip)
    assert torch.equal(module(x, lambda y: y + 1.0), want)


def test_dropout_acts_on_single_elements_of_the_branch() -> None:
    """At p = 1/2 each element of the branch is 0 or twice itself."""
    module = around_ffn("pre", dropout=0.5)
    x = torch.zeros(2, 500, 4)
    y = module(x, lambda x: torch.ones_like(x))
    assert set(y.unique().tolist()) == {0.0, 2.0}
    assert y.mean().item() == pytest.approx(1.0, abs=0.1)
    assert torch.equal(module.eval()(x, torch.ones_like), torch.ones_like(x))


def test_constant_scales_act_where_they_are_named() -> None:
    """skip_scale x + branch_scale f(x), each for its own branches."""
    spec = PlacementSpec(
        skip_scale=ResidualScale(value=3.0, branches=("ffn",)),
        branch_scale=ResidualScale(value=0.5, branches=("attention",)),
    )

    def double(x: Tensor) -> Tensor:
        return 2.0 * x

    x = torch.randn(1, 2, 4)
    ffn = Residual(spec, "ffn", norm="no_norm", width=4)(x, double)
    attention = Residual(spec, "attention", norm="no_norm", width=4)(x, double)
    torch.testing.assert_close(ffn, 5.0 * x)
    torch.testing.assert_close(attention, 2.0 * x)


def test_repr_shows_the_scales() -> None:
    """A printed model says which scale its skip has."""
    config = TransformerConfig(vocabulary=5, width=8, heads=2, depth=8, placement="deepnorm")
    assert "skip_scale=2, branch_scale=1" in repr(CausalLM(config))


@pytest.mark.parametrize("name", BUILT)
def test_built(name: str) -> None:
    """Rows of the table that run."""
    check_placement(PLACEMENTS[name].spec, name)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "sub_ln",
            "the blocks do not build its norm_inside and init.ffn and init.value and init.output;"
            " norm_inside is ('attention', 'ffn') and init.ffn is 'sub_ln' and init.value is"
            " 'sub_ln' and init.output is 'sub_ln'.",
        ),
        (
            "normformer",
            "the blocks do not build its norm_inside and head_scale; norm_inside is ('ffn',) and"
            " head_scale is True.",
        ),
        ("residual", "the blocks do not build its streams; streams is 2."),
        (
            "layer_scale",
            "the blocks do not build its branch_scale.rule; branch_scale.rule is 'learned_vector'.",
        ),
        (
            "rezero",
            "the blocks do not build its branch_scale.rule; branch_scale.rule is 'learned_scalar'.",
        ),
    ],
)
def test_not_built(name: str, text: str) -> None:
    """Rows with a field that nothing here reads name it."""
    want = f"placement {name!r}: {text} {TRY}"
    with pytest.raises(OptionError, match=f"^{re.escape(want)}$"):
        TransformerConfig(vocabulary=5, placement=name)


def test_rows_are_all_tested() -> None:
    """A new row of the registry belongs in one of the two lists above."""
    refused = {"sub_ln", "normformer", "residual", "layer_scale", "rezero"}
    assert set(PLACEMENTS) == refused | set(BUILT)


# A value of each field that is not the default's.
CHANGES: dict[str, Any] = {
    "norm_in": ("ffn",),
    "norm_out": ("ffn",),
    "norm_sum": ("ffn",),
    "skip_scale": ResidualScale(value=2.0),
    "branch_scale": ResidualScale(value=2.0),
    "embedding_norm": True,
    "final_norm": True,
    "init": InitGain(query_key="deepnorm"),
}
REFUSED: dict[str, Any] = {
    "norm_inside": ("ffn",),
    "head_scale": True,
    "streams": 2,
    "second_stream_scale": 0.5,
}


@pytest.mark.parametrize("field", CHANGES)
def test_field_changes_the_function(field: str) -> None:
    """No field that is built does nothing."""

    def logits(spec: PlacementSpec) -> Tensor:
        torch.manual_seed(0)
        config = TransformerConfig(
            vocabulary=5, width=8, heads=2, placement=spec, norm="rms_norm", dropout=0.0
        )
        out: Tensor = CausalLM(config)(torch.arange(4)[None])
        return out

    changed = logits(PlacementSpec(**{field: CHANGES[field]}))
    assert (changed - logits(PlacementSpec())).abs().max() > 1e-4


@pytest.mark.parametrize("field", REFUSED)
def test_field_is_refused(field: str) -> None:
    """No field that is not built is ignored."""
    with pytest.raises(OptionError, match=f"^PlacementSpec: the blocks do not build its {field}; "):
        check_placement(PlacementSpec(**{field: REFUSED[field]}))


def test_fields_are_all_tested() -> None:
    """A new field of the spec belongs in one of the two lists above."""
    assert CHANGES.keys() | REFUSED.keys() == {field.name for field in fields(PlacementSpec)}


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (
            PlacementSpec(skip_scale=ResidualScale(rule="admin", value=None)),
            "skip_scale.rule; skip_scale.rule is 'admin'",
        ),
        (
            PlacementSpec(branch_scale=ResidualScale(rule="deepnorm", value=None)),
            "branch_scale.rule; branch_scale.rule is 'deepnorm'",
        ),
        (
            PlacementSpec(skip_scale=ResidualScale(value=None)),
            "skip_scale.value; skip_scale.value is None",
        ),
        (
            PlacementSpec(init=InitGain(query_key="sub_ln")),
            "init.query_key; init.query_key is 'sub_ln'",
        ),
    ],
)
def test_values_not_built(spec: PlacementSpec, text: str) -> None:
    """Values of a built field that have no formula here."""
    want = f"PlacementSpec: the blocks do not build its {text}. {TRY}"
    with pytest.raises(OptionError, match=f"^{re.escape(want)}$"):
        Residual(spec, "ffn", norm="layer_norm", width=4)
