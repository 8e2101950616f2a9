"""Adaptive RMSNorm: what sets it apart from adaptive LayerNorm, whose tests cover both."""

from __future__ import annotations

import torch

import normkit
from normkit.functional import adaptive_rms_norm


def test_by_number() -> None:
    x = torch.tensor([[3.0, 4.0]], dtype=torch.float64)
    scale = torch.tensor([[1.0, -1.0]], dtype=torch.float64)
    shift = torch.tensor([[0.5, 0.25]], dtype=torch.float64)
    want = torch.tensor([[6.0 / 12.5**0.5 + 0.5, 0.25]], dtype=torch.float64)
    torch.testing.assert_close(adaptive_rms_norm(x, 2, scale, shift, 0.0), want)


def test_equals_the_formula_written_out() -> None:
    def written(x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
        unit = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 0.1)
        return unit * (1 + scale) + shift

    shapes = ((2, 3, 4), (2, 1, 4), (3, 4))
    leaves = [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in shapes]
    dy = torch.randn(2, 3, 4, dtype=torch.float64)
    x, scale, shift = leaves
    results = [
        (y, *torch.autograd.grad(y, leaves, dy))
        for y in (adaptive_rms_norm(x, 4, scale, shift, 0.1), written(x, scale, shift))
    ]
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-11)


def test_the_mean_stays() -> None:
    x, condition = torch.full((1, 2, 4), 3.0), torch.zeros(1, 5)
    torch.testing.assert_close(normkit.AdaptiveRMSNorm(4, 5)(x, condition), torch.ones(1, 2, 4))
    assert normkit.AdaptiveLayerNorm(4, 5)(x, condition).abs().sum() == 0


def test_repr_names_what_is_set() -> None:
    layer = normkit.AdaptiveRMSNorm(4, 5, gate=True, zero_init=False)
    first, second, *_ = repr(layer).splitlines()
    assert first == "AdaptiveRMSNorm("
    assert second == "  (4,), condition_width=5, eps=1e-06, zero_init=False, gate=True"
