"""Initial weights by role."""

from __future__ import annotations

import math
import re

import pytest
import torch
from torch import Tensor, nn

from normkit.blocks import (
    CausalLM,
    Encoder,
    EncoderDecoder,
    RoleGains,
    StackConstants,
    TransformerConfig,
    deepnorm_constants,
    init_linear_,
    role_gains,
    stack_constants,
    sub_ln_constants,
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


@pytest.mark.parametrize("placement", ["deepnorm", "sub_ln"])
@pytest.mark.parametrize("encoder", [False, True])
def test_scales_ffn_value_output_alone(encoder: bool, placement: str) -> None:
    """The draws are those of Post-LN: one factor in four roles, the same in all others."""
    plain, scaled = (weights(name, encoder=encoder) for name in ("post", placement))
    wanted = {"deepnorm": (8 * 6) ** -0.25, "sub_ln": math.log(12) ** 0.5}[placement]
    for name, value in plain.items():
        if "around" in name:
            continue  # norms draw nothing
        factor = torch.ones_like(value)
        if name.endswith("qkv.weight"):
            factor[2 * D :] = wanted
        elif name.endswith(("output.weight", "first.weight", "second.weight")):
            factor[:] = wanted
        torch.testing.assert_close(scaled[name], factor * value, rtol=1e-6, atol=0, msg=name)


@pytest.mark.parametrize(("placement", "in_cross"), [("deepnorm", True), ("sub_ln", False)])
def test_cross_attention(placement: str, in_cross: bool) -> None:
    """DeepNorm scales its value and output like any other, Sub-LN leaves them alone."""
    n, m = 2, 3
    wanted = {
        "deepnorm": (0.87 * (n**4 * m) ** (-1 / 16), (12 * m) ** -0.25),
        "sub_ln": ((math.log(3 * m) * math.log(2 * n) / 3) ** 0.5, math.log(3 * m) ** 0.5),
    }[placement]
    states = []
    for name in ("post", placement):
        torch.manual_seed(0)
        source, target = (
            TransformerConfig(vocabulary=5, width=16, heads=2, depth=depth, placement=name)
            for depth in (n, m)
        )
        states.append(dict(EncoderDecoder(source, target).named_parameters()))
    for name, value in states[0].items():
        if "around" in name:
            continue
        gain = wanted[0] if name.startswith("encoder") else wanted[1]
        gain = gain if in_cross or "cross" not in name else 1.0
        factor = torch.ones_like(value)
        if name.endswith(("qkv.weight", "key_value.weight")):
            factor[-16:] = gain
        elif name.endswith((".output.weight", "first.weight", "second.weight")):
            factor[:] = gain
        torch.testing.assert_close(states[1][name], factor * value, rtol=1e-6, atol=0, msg=name)


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
    """Each role reads its own rule; in cross attention Sub-LN's is 1."""
    constants = StackConstants(alpha=9.0, beta=0.3, gamma=1.5)
    init = InitGain(value="deepnorm", query_key="deepnorm", output="sub_ln")
    assert role_gains(init, constants) == RoleGains(
        value=0.3, query_key=0.3, output=1.5, cross_value=0.3, cross_output=1.0
    )


def test_stack_constants() -> None:
    """Each stack takes its own side, alone and with a partner."""
    for causal, side in ((False, "encoder"), (True, "decoder")):
        for partner in (0, 5):
            counts = (partner, 3) if causal else (3, partner)
            layers = dict(zip(("encoder_layers", "decoder_layers"), counts, strict=True))
            pair = getattr(deepnorm_constants(**layers), side)
            assert stack_constants(3, causal=causal, partner_depth=partner) == StackConstants(
                alpha=pair.alpha, beta=pair.beta, gamma=getattr(sub_ln_constants(**layers), side)
            )
