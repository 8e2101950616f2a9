"""Every norm of the registry on tokens."""

from __future__ import annotations

import re

import pytest
import torch

from normkit import layers, spec
from normkit.blocks import TokenNorm, make_norm
from normkit.errors import OptionError

# class, and what a token's statistics depend on
NORMS = {
    "layer_norm": (layers.LayerNorm, "token"),
    "rms_norm": (layers.RMSNorm, "token"),
    "batch_norm": (layers.BatchNorm1d, "all_rows"),
    "masked_batch_norm": (layers.MaskedBatchNorm, "real_rows"),
    "no_norm": (layers.NoNorm, "token"),
}


def registered(name: str, norm: spec.NormSpec | spec.norm.Composite) -> spec.NormEntry:
    """Make an entry for a norm that this version has no layer of; LayerNorm stands in."""
    return spec.NormEntry(
        name=name, title=name, spec=norm, layers=("LayerNorm",), op=None, source="a test"
    )


@pytest.mark.parametrize("name", spec.NORMS)
def test_layer_and_reach(name: str) -> None:
    """The layer is ours, and the reach is the one in its formula."""
    norm = make_norm(name, 6)
    layer, reach = NORMS[name]
    assert type(norm.norm) is layer
    assert norm.reach == reach
    assert repr(norm).startswith(f"TokenNorm(\n  reach='{reach}'")


@pytest.mark.parametrize("name", spec.NORMS)
def test_what_a_token_depends_on(name: str) -> None:
    """Change one pad and one real token: who moves says what the statistics read."""
    norm = make_norm(name, 6).double()
    x = torch.randn(2, 4, 6, dtype=torch.float64)
    valid = torch.tensor([[True, True, True, True], [True, True, True, False]])
    other_pad, other_token = x.clone(), x.clone()
    other_pad[1, 3] += 3.0
    other_token[1, 2] += 3.0
    y = norm(x, valid)[0]
    pad_matters = not torch.equal(norm(other_pad, valid)[0], y)
    tokens_matter = not torch.equal(norm(other_token, valid)[0], y)
    want = {"token": (False, False), "real_rows": (False, True), "all_rows": (True, True)}
    assert (pad_matters, tokens_matter) == want[norm.reach]


def test_pads_move_the_naive_batch_norm() -> None:
    """75% zeros around data of mean 2: real tokens come out with mean 1.5 where 0 is right."""
    x = torch.zeros(200, 40, 4)
    x[:, :10] = 2.0 + torch.randn(200, 10, 4)
    valid = torch.zeros(200, 40, dtype=torch.bool)
    valid[:, :10] = True
    naive = make_norm("batch_norm", 4)(x, valid)[valid].mean()
    masked = make_norm("masked_batch_norm", 4)(x, valid)[valid].mean()
    assert naive.item() == pytest.approx(1.5, abs=0.05)
    assert masked.item() == pytest.approx(0.0, abs=1e-5)


def test_without_mask_both_batch_norms_agree() -> None:
    """None means that every token is real."""
    x = torch.randn(3, 5, 6, dtype=torch.float64)
    y = [make_norm(name, 6).double()(x) for name in ("batch_norm", "masked_batch_norm")]
    torch.testing.assert_close(*y, rtol=0, atol=1e-12)


def test_unknown_norm() -> None:
    """A name that is not there."""
    with pytest.raises(OptionError, match=r"got 'layernorm'\. Did you mean 'layer_norm'\?$"):
        make_norm("layernorm", 4)


def test_norm_over_other_axes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A norm of each image has no meaning on a token."""
    image = registered("instance_norm", spec.NormSpec(over=("space",)))
    monkeypatch.setattr("normkit.blocks.norm.norm_entry", lambda name: image)
    text = (
        "make_norm: a norm on tokens shares statistics over features or over the batch;"
        " 'instance_norm' shares them over space."
    )
    with pytest.raises(OptionError, match=f"^{re.escape(text)}$"):
        make_norm("instance_norm", 4)


@pytest.mark.parametrize(("masked", "reach"), [(True, "real_rows"), (False, "all_rows")])
def test_composite(monkeypatch: pytest.MonkeyPatch, masked: bool, reach: str) -> None:
    """A norm of two steps depends on what its widest step reads."""
    batch = spec.StatsSpec(train="batch", eval="running", masked=masked)
    steps = (
        spec.NormSpec(over=("group",), center=False, scale="rms"),
        spec.NormSpec(over=("batch", "position"), center=False, scale="rms", stats=batch),
    )
    two = registered("two_steps", steps)
    monkeypatch.setattr("normkit.blocks.norm.norm_entry", lambda name: two)
    assert make_norm("two_steps", 4).reach == reach


def test_reach_is_data() -> None:
    """TokenNorm wraps any module."""
    norm = TokenNorm(torch.nn.BatchNorm1d(4), "all_rows")
    assert norm(torch.randn(2, 3, 4)).shape == (2, 3, 4)
