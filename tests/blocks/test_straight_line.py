"""Each placement against the same model written by hand, outputs and gradients in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from normkit.blocks import Encoder, EncoderDecoder, Transformer, TransformerConfig
from tests.blocks import straight_line

VALID = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [0, 1, 0, 1, 1]], dtype=torch.bool)
SOURCE = torch.tensor([[0, 1, 1, 0], [1, 1, 1, 1], [1, 0, 0, 0]], dtype=torch.bool)
TOLERANCE = {"rtol": 1e-11, "atol": 1e-12}
NORMS = ("layer_norm", "rms_norm", "batch_norm", "masked_batch_norm", "no_norm")


def small_config(norm: str, placement: str, depth: int = 2) -> TransformerConfig:
    """Sizes that no two dimensions share."""
    return TransformerConfig(
        vocabulary=7, width=8, heads=2, depth=depth, ffn_width=12, max_length=5,
        norm=norm, placement=placement,
    )  # fmt: skip


def shaken(model: nn.Module) -> nn.Module:
    """Make it float64, with no bias 0 and no gain 1; LayerScale's 0.1 and ReZero's 0 move too."""
    model.double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return model


def small_model(norm: str, placement: str, *, causal: bool, depth: int = 2) -> Transformer:
    """Build one stack."""
    config = small_config(norm, placement, depth)
    model = shaken(Transformer(config, causal=True) if causal else Encoder(config))
    assert isinstance(model, Transformer)
    return model


def twin(model: nn.Module) -> dict[str, Tensor]:
    """Copy the parameters by name."""
    return {name: p.detach().clone().requires_grad_() for name, p in model.named_parameters()}


def same(model: nn.Module, copies: dict[str, Tensor], got: Tensor, want: Tensor) -> None:
    """Compare outputs at real tokens, (N, D), and the gradients of every parameter."""
    torch.testing.assert_close(got, want, **TOLERANCE)
    weights = torch.randn_like(want)
    (got * weights).sum().backward()
    (want * weights).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        torch.testing.assert_close(parameter.grad, copies[name].grad, **TOLERANCE, msg=name)


def compare(model: Transformer, valid: Tensor | None) -> None:
    """Run model and hand-written twin on random tokens."""
    tokens = torch.randint(7, VALID.shape)
    real = torch.ones_like(VALID) if valid is None else valid
    copies = twin(model)
    want = straight_line.hidden(copies, model.config, tokens, real, causal=model.causal)
    same(model, copies, model(tokens, valid)[real], want[real])


@pytest.mark.parametrize("placement", straight_line.PLACEMENTS)
@pytest.mark.parametrize("norm", NORMS)
def test_padded(norm: str, placement: str) -> None:
    """Rows with pads at the right, at the left, and between."""
    compare(small_model(norm, placement, causal=True), VALID)


@pytest.mark.parametrize("causal", [True, False], ids=["causal", "encoder"])
@pytest.mark.parametrize("placement", straight_line.PLACEMENTS)
def test_without_mask(placement: str, causal: bool) -> None:
    """No mask means that every token is real; attention takes another road there."""
    compare(small_model("layer_norm", placement, causal=causal), None)


@pytest.mark.parametrize("masked", [True, False], ids=["padded", "without mask"])
@pytest.mark.parametrize("placement", straight_line.PLACEMENTS)
def test_encoder_decoder(placement: str, masked: bool) -> None:
    """The encoder's norms read the source's mask, cross attention too, the rest the target's."""
    depths = {"encoder": 1, "decoder": 2}
    configs = [small_config("masked_batch_norm", placement, depth) for depth in depths.values()]
    model = shaken(EncoderDecoder(*configs))
    source, target = torch.randint(7, SOURCE.shape), torch.randint(7, VALID.shape)
    given = (SOURCE, VALID) if masked else (None, None)
    real = (SOURCE, VALID) if masked else (torch.ones_like(SOURCE), torch.ones_like(VALID))
    copies = twin(model)
    parts = [
        {name.removeprefix(f"{part}."): p for name, p in copies.items() if name.startswith(part)}
        for part in depths
    ]
    alpha = 0.81 * (1**4 * 2) ** (1 / 16)
    encoded = straight_line.hidden(parts[0], configs[0], source, real[0], causal=False, alpha=alpha)
    decoded = straight_line.hidden(
        parts[1], configs[1], target, real[1],
        causal=True, memory=(encoded, real[0]), alpha=(3 * 2) ** 0.25,
    )  # fmt: skip
    want = decoded @ copies["head.weight"].T + copies["head.bias"]
    same(model, copies, model(source, target, *given)[real[1]], want[real[1]])


@pytest.mark.parametrize("placement", straight_line.PLACEMENTS)
def test_every_norm_is_called_once(placement: str) -> None:
    """No norm is shared between two places, and none is left unused."""
    model = EncoderDecoder(small_config("rms_norm", placement))
    calls: list[nn.Module] = []
    norms = [m for name, m in model.named_modules() if name.endswith(".norm")]
    for module in norms:
        module.register_forward_hook(lambda module, args, out: calls.append(module))
    tokens = torch.zeros(1, 3, dtype=torch.long)
    model(tokens, tokens)
    assert (len(norms) > 0) == (placement != "rezero")
    assert sorted(map(id, calls)) == sorted(map(id, norms))
