"""The start of training: parameters by formula, gradients, blocks that begin as the identity."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from normkit import RMSNorm
from normkit.blocks import (
    CausalLM,
    EncoderDecoder,
    Residual,
    TransformerConfig,
    scale_last_gains_,
)
from normkit.spec import PLACEMENTS, PlacementSpec

V, D, H, F, T, L = 7, 8, 2, 12, 5, 3
# Norms over D features by layer of an encoder, and by layer of a decoder; around the stack;
# numbers that are learned beside, by layer of an encoder and of a decoder.
COUNTS = {
    "post": (2, 3, 0, 0, 0),
    "pre": (2, 3, 1, 0, 0),
    "deepnorm": (2, 3, 0, 0, 0),
    "sandwich": (4, 6, 1, 0, 0),
    "peri": (4, 6, 2, 0, 0),
    "sub_ln": (3, 4, 1, 2 * F, 2 * F),
    "normformer": (3, 4, 1, 2 * F + H, 2 * F + H),
    "residual": (2, 3, 1, 0, 0),
    "layer_scale": (2, 3, 1, 2 * D, 3 * D),
    "rezero": (0, 0, 0, 2, 3),
}


def config(placement: str | PlacementSpec, **options: object) -> TransformerConfig:
    """Sizes that no two dimensions share."""
    return TransformerConfig(
        vocabulary=V, width=D, heads=H, depth=L, ffn_width=F, max_length=T,
        placement=placement, **options,  # type: ignore[arg-type]
    )  # fmt: skip


def size(model: nn.Module) -> int:
    """Count the parameters."""
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_parameter_count(placement: str) -> None:
    """Embeddings, four D x D matrices, two D x F ones, biases, each norm once, learned scales."""
    in_encoder, in_decoder, around, more, more_decoder = COUNTS[placement]
    embeddings, head = V * D + T * D, D * V + V
    attention, ffn = 4 * D * D + 4 * D, 2 * D * F + F + D
    stack = embeddings + around * 2 * D
    encoder = stack + L * (attention + ffn + in_encoder * 2 * D + more)
    decoder = stack + L * (2 * attention + ffn + in_decoder * 2 * D + more_decoder)
    assert size(CausalLM(config(placement))) == encoder + head
    assert size(EncoderDecoder(config(placement))) == encoder + decoder + head


def gradients(model: EncoderDecoder) -> dict[str, Tensor]:
    """One backward pass of random tokens; float64, so that a 0 is a 0."""
    out = model.double()(*torch.randint(V, (2, 3, T)))
    (out * torch.randn_like(out)).sum().backward()
    return {name: parameter.grad for name, parameter in model.named_parameters()}  # type: ignore[misc]


@pytest.mark.parametrize("placement", [name for name in PLACEMENTS if name != "rezero"])
def test_every_parameter_has_a_gradient(placement: str) -> None:
    """Nothing stands beside the path to the loss."""
    zero = {name for name, g in gradients(EncoderDecoder(config(placement))).items() if not g.any()}
    assert not zero


def test_rezero_trains_its_scales_first() -> None:
    """At alpha = 0 every weight inside a branch has exactly no gradient, and alpha has one.

    No fault of the model: after one step alpha is not 0, and the weights follow.
    """
    model = EncoderDecoder(config("rezero"))
    for name, gradient in gradients(model).items():
        inside = ".blocks." in name and "around" not in name
        # What the decoder does not read yet, the encoder cannot learn from.
        assert bool(gradient.any()) == (not inside and not name.startswith("encoder")), name
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("branch_scale"):
                assert parameter.item() == 0.0
                parameter.fill_(0.1)
    model.zero_grad()
    assert all(gradient.any() for gradient in gradients(model).values())


@pytest.mark.parametrize("placement", ["sandwich", "peri"])
def test_last_gain_of_zero_starts_as_the_identity(placement: str) -> None:
    """Every block gives back what it got; the gains get the first gradients inside branches."""
    model = EncoderDecoder(config(placement, last_gain=0.0))
    x = torch.randn(2, 3, D)
    assert all(torch.equal(block(x), x) for block in model.encoder.blocks)
    for name, gradient in gradients(model).items():
        if "norm_out.norm" in name and name.startswith("decoder"):
            assert gradient.any(), name
        elif ".blocks." in name:
            assert not gradient.any(), name


def test_last_gain_scales_the_last_norm_alone() -> None:
    """0.1 at the end of each branch: a hundredth of the growth; every other gain stays 1."""
    model = CausalLM(config("peri", last_gain=0.1))
    for name, parameter in model.named_parameters():
        if name.endswith("norm.weight"):
            want = 0.1 if "norm_out" in name else 1.0
            assert parameter.tolist() == pytest.approx([want] * D), name


def test_last_gain_of_a_zero_centred_norm() -> None:
    """It stores the gain less 1: 0.25 is -0.75, and 0 is -1."""
    around = Residual(PlacementSpec(norm_out=("ffn",)), "ffn", norm="rms_norm", width=4)
    assert around.norm_out is not None
    around.norm_out.norm = RMSNorm(4, zero_centred=True)
    x = torch.randn(2, 3, 4)
    before = around(x, torch.sin) - x
    scale_last_gains_(around, 0.25)
    assert around.norm_out.norm.weight.tolist() == [-0.75] * 4
    torch.testing.assert_close(around(x, torch.sin) - x, 0.25 * before)
    scale_last_gains_(around, 0.0)
    assert around.norm_out.norm.weight.tolist() == [-1.0] * 4


@pytest.mark.parametrize("placement", ["pre", "sub_ln", "layer_scale"])
def test_zero_init_branches_starts_as_the_identity(placement: str) -> None:
    """Every block gives back what it got; the last matrices get gradients, and then the rest."""
    model = EncoderDecoder(config(placement, zero_init_branches=True))
    x = torch.randn(2, 3, D)
    assert all(torch.equal(block(x), x) for block in model.encoder.blocks)
    last = ("attention.output.weight", "ffn.second.weight")
    found = gradients(model)
    for name, parameter in model.named_parameters():
        if name.endswith(last):
            assert not parameter.any()
            assert found[name].any() or name.startswith("encoder"), name
        elif ".blocks." in name and name.endswith(("qkv.weight", "first.weight")):
            assert parameter.any(), name
            assert not found[name].any(), name


def test_zero_init_branches_under_a_norm_on_the_sum() -> None:
    """Post-norm's block starts as its two norms."""
    model = CausalLM(config("post", zero_init_branches=True))
    x = torch.randn(2, 3, D)
    want = nn.functional.layer_norm(nn.functional.layer_norm(x, (D,)), (D,))
    torch.testing.assert_close(model.transformer.blocks[0](x), want)
