"""Every norm of the registry on tokens."""

from __future__ import annotations

import re

import pytest
import torch

from normkit import layers, spec
from normkit.blocks import TokenNorm, has_gain, make_norm, token_norms
from normkit.errors import OptionError, choices

# class, and what a token's statistics depend on
NORMS = {
    "layer_norm": ("LayerNorm", "token"),
    "rms_norm": ("RMSNorm", "token"),
    "batch_norm": ("BatchNorm1d", "all_rows"),
    "masked_batch_norm": ("MaskedBatchNorm", "real_rows"),
    "channel_layer_norm": ("ChannelLayerNorm", "token"),
    "scale_norm": ("ScaleNorm", "token"),
    "dynamic_tanh": ("DynamicTanh", "token"),
    "dynamic_erf": ("DynamicErf", "token"),
    "power_norm": ("PowerNorm", "real_rows"),
    "no_norm": ("NoNorm", "token"),
}
# What keeps the others away.
SECOND_INPUT = ("gated_rms_norm", "adaptive_layer_norm", "adaptive_rms_norm")
OBSTACLES = {
    "group_norm": "shares statistics over group and space",
    "instance_norm": "shares statistics over space",
    "qk_norm": "shares statistics over head",
    **dict.fromkeys(SECOND_INPUT, "needs a second input"),
}


def test_token_norms() -> None:
    """Every norm of the registry is in one of the two lists."""
    assert token_norms() == tuple(NORMS)
    assert set(spec.NORMS) == NORMS.keys() | OBSTACLES.keys()


@pytest.mark.parametrize("name", OBSTACLES)
def test_not_on_tokens(name: str) -> None:
    """The sentence says why, and which norms can."""
    rule = f"make_norm: on tokens norm must be {choices(NORMS)}; "
    with pytest.raises(OptionError, match=f"^{re.escape(f'{rule}{name!r} {OBSTACLES[name]}.')}$"):
        make_norm(name, 4)


@pytest.mark.parametrize("name", NORMS)
def test_has_gain(name: str) -> None:
    """What the spec says is what the layer has."""
    assert has_gain(name) == (name != "no_norm")
    assert has_gain(name) == ("weight" in dict(make_norm(name, 6).norm.named_parameters()))


@pytest.mark.parametrize("name", NORMS)
def test_layer_and_reach(name: str) -> None:
    """The layer is ours, and the reach is the one in its formula."""
    norm = make_norm(name, 6)
    layer, reach = NORMS[name]
    assert type(norm.norm) is getattr(layers, layer)
    assert norm.reach == reach
    assert repr(norm).startswith(f"TokenNorm(\n  reach='{reach}'")


@pytest.mark.parametrize("name", NORMS)
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


def test_reach_is_data() -> None:
    """TokenNorm wraps any module."""
    norm = TokenNorm(torch.nn.BatchNorm1d(4), "all_rows")
    assert norm(torch.randn(2, 3, 4)).shape == (2, 3, 4)
