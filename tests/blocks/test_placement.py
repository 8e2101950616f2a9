"""The residual connection: order of its steps, its scales, and what it refuses to ignore."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest
import torch
from torch import Tensor

from normkit.blocks import CausalLM, Residual, TransformerConfig, TwoStreams, check_placement
from normkit.errors import OptionError
from normkit.spec import PLACEMENTS, InitGain, PlacementSpec, ResidualScale

TRY = (
    "Try placement 'post', 'pre', 'deepnorm', 'sandwich', 'peri', 'sub_ln', 'normformer',"
    " 'residual', 'layer_scale' or 'rezero'."
)


def around_ffn(placement: str, dropout: float) -> Residual:
    """Build the connection with norms whose bias is not 0, so that a norm of 0 is not 0."""
    spec = PLACEMENTS[placement].spec
    module = Residual(spec, "ffn", norm="layer_norm", width=4, alpha=2.0, dropout=dropout)
    for norm in module.modules():
        if isinstance(norm, torch.nn.LayerNorm):
            torch.nn.init.constant_(norm.bias, 0.5)
    return module


@pytest.mark.parametrize("placement", PLACEMENTS)
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


@pytest.mark.parametrize(
    ("placement", "text"),
    [
        ("deepnorm", "skip_scale=2, branch_scale=1"),
        ("rezero", "skip_scale=1, branch_scale=a learned number"),
        ("layer_scale", "skip_scale=1, branch_scale=8 learned numbers"),
    ],
)
def test_repr_shows_the_scales(placement: str, text: str) -> None:
    """A printed model says which scales its skip and its branch have."""
    config = TransformerConfig(vocabulary=5, width=8, heads=2, depth=8, placement=placement)
    assert text in repr(CausalLM(config))


@pytest.mark.parametrize("rule", ["learned_scalar", "learned_vector"])
@pytest.mark.parametrize("field", ["skip_scale", "branch_scale"])
def test_learned_scales(field: str, rule: Any) -> None:
    """A parameter where the scale acts, a plain 1 elsewhere (NormFormer's ResScale: skip, FFN)."""
    spec = PlacementSpec(**{field: ResidualScale(rule=rule, value=0.25, branches=("ffn",))})
    around = Residual(spec, "ffn", norm="no_norm", width=4)
    ((name, parameter),) = around.named_parameters()
    assert name == field
    assert parameter.shape == ((4,) if rule == "learned_vector" else ())
    x, f = torch.randn(1, 2, 4), torch.sin
    want = 0.25 * x + f(x) if field == "skip_scale" else x + 0.25 * f(x)
    torch.testing.assert_close(around(x, f), want)
    around(x, f).sum().backward()
    want_grad = (x if field == "skip_scale" else f(x)).flatten(0, 1).sum(0)
    want_grad = want_grad if rule == "learned_vector" else want_grad.sum()
    torch.testing.assert_close(parameter.grad, want_grad)
    elsewhere = Residual(spec, "attention", norm="no_norm", width=4)
    assert not list(elsewhere.parameters())
    torch.testing.assert_close(elsewhere(x, f), x + f(x))


def test_two_streams() -> None:
    """z <- N(a z + b f(z)) beside s <- s + c b f(z): the skip's scale is the first stream's own."""
    spec = PlacementSpec(
        norm_sum=("ffn",), streams=2, second_stream_scale=0.5,
        skip_scale=ResidualScale(value=3.0), branch_scale=ResidualScale(value=2.0),
    )  # fmt: skip
    around = Residual(spec, "ffn", norm="layer_norm", width=4)
    z, s = torch.randn(2, 1, 3, 4)
    main, second = around(TwoStreams(z, s), torch.sin)
    torch.testing.assert_close(main, torch.nn.functional.layer_norm(3 * z + 2 * z.sin(), (4,)))
    torch.testing.assert_close(second, s + 0.5 * 2 * z.sin())


def test_second_stream_scale_is_taken_out_by_the_final_norm() -> None:
    """c acts on all that the second stream adds up, its start too: N(c s) = N(s) up to eps."""
    out = []
    for scale in (1.0, 0.125):
        torch.manual_seed(0)
        spec = dataclasses.replace(PLACEMENTS["residual"].spec, second_stream_scale=scale)
        config = TransformerConfig(vocabulary=5, width=8, heads=2, placement=spec)
        out.append(CausalLM(config).double()(torch.arange(4)[None]))
    torch.testing.assert_close(*out, rtol=1e-3, atol=1e-3)
    assert not torch.equal(*out)


@pytest.mark.parametrize("name", PLACEMENTS)
def test_every_row_is_built(name: str) -> None:
    """The table holds no row that does not run."""
    check_placement(PLACEMENTS[name].spec, name)


# A value of each field that is not the default's.
CHANGES: dict[str, Any] = {
    "norm_in": ("ffn",),
    "norm_out": ("ffn",),
    "norm_sum": ("ffn",),
    "skip_scale": ResidualScale(value=2.0),
    "branch_scale": ResidualScale(value=2.0),
    "embedding_norm": True,
    "final_norm": True,
    "norm_inside": ("attention",),
    "streams": 2,
    "init": InitGain(query_key="deepnorm"),
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


def test_head_scale_adds_one_number_a_head() -> None:
    """It starts from 1 and so changes the function only once it is trained."""
    config = TransformerConfig(
        vocabulary=5, width=8, heads=2, depth=3, placement=PlacementSpec(head_scale=True)
    )
    scales = [p for name, p in CausalLM(config).named_parameters() if name.endswith("head_scale")]
    assert [p.tolist() for p in scales] == [[1.0, 1.0]] * 3


def test_second_stream_scale_needs_a_second_stream() -> None:
    """It would do nothing."""
    text = (
        "PlacementSpec: second_stream_scale acts on a second stream;"
        " streams is 1 and second_stream_scale is 0.5. Try streams=2."
    )
    with pytest.raises(OptionError, match=f"^{re.escape(text)}$"):
        check_placement(PlacementSpec(second_stream_scale=0.5))


def test_fields_are_all_tested() -> None:
    """A new field of the spec belongs in the list above, or beside these two."""
    own = {"head_scale", "second_stream_scale"}
    assert CHANGES.keys() | own == {field.name for field in dataclasses.fields(PlacementSpec)}


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
            PlacementSpec(skip_scale=ResidualScale(rule="learned_vector", value=None)),
            "skip_scale.value; skip_scale.value is None",
        ),
        (
            PlacementSpec(branch_scale=ResidualScale(rule="learned_scalar", value=None)),
            "branch_scale.value; branch_scale.value is None",
        ),
    ],
)
def test_values_not_built(spec: PlacementSpec, text: str) -> None:
    """Values of a built field that have no formula here."""
    want = f"PlacementSpec: the blocks do not build its {text}. {TRY}"
    with pytest.raises(OptionError, match=f"^{re.escape(want)}$"):
        Residual(spec, "ffn", norm="layer_norm", width=4)
