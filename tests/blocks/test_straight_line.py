"""Each placement against the same model written by hand, outputs and gradients in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from normkit.blocks import Encoder, Transformer, TransformerConfig
from normkit.spec import NORMS
from tests.blocks import straight_line

VALID = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [0, 1, 0, 1, 1]], dtype=torch.bool)
TOLERANCE = {"rtol": 1e-11, "atol": 1e-12}


def small_model(norm: str, placement: str, *, causal: bool, depth: int = 2) -> Transformer:
    """Build a float64 model in which no bias is 0 and no gain is 1."""
    config = TransformerConfig(
        vocabulary=7, width=8, heads=2, depth=depth, ffn_width=12, max_length=5,
        norm=norm, placement=placement,
    )  # fmt: skip
    model = (Transformer(config, causal=True) if causal else Encoder(config)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return model


def compare(model: Transformer, valid: Tensor | None) -> None:
    """Run model and hand-written twin on random tokens, compare hidden states and gradients."""
    tokens = torch.randint(7, VALID.shape)
    real = torch.ones_like(VALID) if valid is None else valid
    twin = {name: p.detach().clone().requires_grad_() for name, p in model.named_parameters()}
    got = model(tokens, valid)
    want = straight_line.hidden(twin, model.config, tokens, real, causal=model.causal)
    torch.testing.assert_close(got[real], want[real], **TOLERANCE)
    weights = torch.randn(7, 8, dtype=torch.float64)[tokens]
    (got * weights)[real].sum().backward()
    (want * weights)[real].sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        torch.testing.assert_close(parameter.grad, twin[name].grad, **TOLERANCE, msg=name)


@pytest.mark.parametrize("causal", [True, False], ids=["causal", "encoder"])
@pytest.mark.parametrize("placement", straight_line.LAYERS)
@pytest.mark.parametrize("norm", NORMS)
def test_padded(norm: str, placement: str, causal: bool) -> None:
    """Rows with pads at the right, at the left, and between."""
    compare(small_model(norm, placement, causal=causal), VALID)


@pytest.mark.parametrize("causal", [True, False], ids=["causal", "encoder"])
@pytest.mark.parametrize("placement", straight_line.LAYERS)
def test_without_mask(placement: str, causal: bool) -> None:
    """No mask means that every token is real; attention takes another road there."""
    compare(small_model("layer_norm", placement, causal=causal), None)


@pytest.mark.parametrize("placement", straight_line.LAYERS)
def test_parameter_count(placement: str) -> None:
    """Embeddings, four D x D matrices, two D x F ones, biases, and each norm once."""
    V, D, L, F, T = 7, 8, 3, 12, 5
    model = small_model("layer_norm", placement, causal=True, depth=L)
    layer = (3 * D * D + 3 * D) + (D * D + D) + (D * F + F) + (F * D + D)
    norms = {"post": 2 * L, "pre": 2 * L + 1, "deepnorm": 2 * L,
             "sandwich": 4 * L + 1, "peri": 4 * L + 2}[placement]  # fmt: skip
    want = V * D + T * D + L * layer + norms * 2 * D
    assert sum(parameter.numel() for parameter in model.parameters()) == want


@pytest.mark.parametrize("placement", straight_line.LAYERS)
def test_every_norm_is_called_once(placement: str) -> None:
    """No norm is shared between two places, and none is left unused."""
    model = small_model("rms_norm", placement, causal=True)
    calls: list[nn.Module] = []
    norms = [m for name, m in model.named_modules() if name.endswith(".norm")]
    for module in norms:
        module.register_forward_hook(lambda module, args, out: calls.append(module))
    model(torch.zeros(1, 3, dtype=torch.long))
    assert len(norms) > 0
    assert sorted(map(id, calls)) == sorted(map(id, norms))
