"""Initial weights by role."""

from __future__ import annotations

import re

import pytest
import torch
from torch import Tensor, nn

from normkit.blocks import (
    CausalLM,
    Encoder,
    RoleGains,
    TransformerConfig,
    deepnorm_constants,
    init_linear_,
    role_gains,
)
from normkit.errors import ShapeError
from normkit.spec import InitGain

D = 64


def weights(placement: str, *, depth: int = 6, encoder: bool = False) -> dict[str, Tensor]:
    """Give the initial parameters of a model at one seed."""
    torch.manual_seed(0)
    config = TransformerConfig(vocabulary=50, width=D, depth=depth, placement=placement)
    model = Encoder(config) if encoder else CausalLM(config).transformer
    return dict(model.named_parameters())


def test_xavier_by_role() -> None:
    """Each matrix has Xavier's standard deviation for its own shape; the fused one by slices."""
    w = weights("post")
    for name, std in [
        ("attention.qkv.weight", D**-0.5),  # not sqrt(2 / (D + 3D))
        ("attention.output.weight", D**-0.5),
        ("ffn.first.weight", (2 / (5 * D)) ** 0.5),
        ("ffn.second.weight", (2 / (5 * D)) ** 0.5),
    ]:
        matrix = torch.stack([w[f"blocks.{i}.{name}"] for i in range(6)])
        assert matrix.std().item() == pytest.approx(std, rel=0.03), name
        assert abs(matrix.mean().item()) < 0.03 * std, name


def test_the_rest() -> None:
    """Biases 0, tokens at unit scale, learned positions a nudge, gains 1."""
    w = weights("post")
    assert w["tokens.weight"].std().item() == pytest.approx(1.0, rel=0.05)
    assert w["positions.weight"].std().item() == pytest.approx(0.02, rel=0.05)
    biases = [value for name, value in w.items() if name.endswith("bias")]
    assert len(biases) == 6 * 6
    assert all(bool((bias == 0).all()) for bias in biases)
    gains = [value for name, value in w.items() if name.endswith("norm_sum.norm.weight")]
    assert len(gains) == 12
    assert all(bool((gain == 1).all()) for gain in gains)


@pytest.mark.parametrize("encoder", [False, True])
def test_deepnorm_scales_ffn_value_output_alone(encoder: bool) -> None:
    """The draws are those of Post-LN: beta times them in four roles, the same in all others."""
    plain, deep = (weights(placement, encoder=encoder) for placement in ("post", "deepnorm"))
    pair = deepnorm_constants(decoder_layers=6).decoder
    assert pair is not None
    assert plain.keys() == deep.keys()
    for name, value in plain.items():
        factor = torch.ones_like(value)
        if name.endswith("qkv.weight"):
            factor[2 * D :] = pair.beta
        elif name.endswith(("output.weight", "first.weight", "second.weight")):
            factor[:] = pair.beta
        torch.testing.assert_close(deep[name], factor * value, rtol=1e-6, atol=0, msg=name)


def test_fused_is_three_separate() -> None:
    """One fused matrix gets the numbers that three separate ones would."""
    fused = nn.Linear(D, 3 * D)
    torch.manual_seed(1)
    init_linear_(fused, 1.0, 1.0, 0.5)
    torch.manual_seed(1)
    parts = [nn.init.xavier_normal_(torch.empty(D, D), gain=gain) for gain in (1.0, 1.0, 0.5)]
    assert torch.equal(fused.weight, torch.cat(parts))
    assert not fused.bias.any()


def test_init_linear_without_bias_or_gain() -> None:
    """A projection without bias stays without; no gain means 1."""
    linear = nn.Linear(300, 100, bias=False)
    init_linear_(linear)
    assert linear.weight.std().item() == pytest.approx((2 / 400) ** 0.5, rel=0.03)


def test_init_linear_refuses_slices_that_do_not_fit() -> None:
    """Three gains for 8 output features."""
    text = (
        "init_linear_: 3 gains need output features that divide by 3; there are 8 output features."
    )
    with pytest.raises(ShapeError, match=f"^{re.escape(text)}$"):
        init_linear_(nn.Linear(4, 8), 1.0, 1.0, 1.0)


def test_role_gains() -> None:
    """Each role reads its own rule."""
    init = InitGain(value="deepnorm", query_key="deepnorm")
    assert role_gains(init, beta=0.3) == RoleGains(value=0.3, query_key=0.3)
