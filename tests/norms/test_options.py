"""Every option arrives: from the module at the function, and in the backward pass."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import normkit
from normkit import functional
from normkit.measure import assert_within, sum_scale
from tests.norms.impls import IMPLS, compute_dtype

WIDTH = 8
OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("LayerNorm", {"eps": 0.3}),
    ("LayerNorm", {"eps": 0.3, "eps_place": "outside"}),
    ("LayerNorm", {"eps": 2.0, "eps_place": "clamp"}),
    ("LayerNorm", {"zero_centred": True}),
    ("RMSNorm", {"eps": 0.3}),
    ("RMSNorm", {"eps": 0.3, "eps_place": "outside"}),
    ("RMSNorm", {"eps": 2.0, "eps_place": "clamp"}),
    ("RMSNorm", {"zero_centred": True}),
    ("RMSNorm", {"rounding": "before_gain"}),
    ("RMSNorm", {"fraction": 0.5}),
    ("RMSNorm", {"output_dtype": "weight"}),
    ("RMSNorm", {"output_dtype": "promoted"}),
]


def filled(layer: nn.Module) -> nn.Module:
    """The same weight in every layer, which no default hides behind."""
    with torch.no_grad():
        layer.weight.copy_(torch.linspace(0.3, 1.7, WIDTH))
    return layer


def equal(a: Tensor, b: Tensor) -> bool:
    """Whether dtype and bits agree."""
    return a.dtype == b.dtype and torch.equal(a, b)


@pytest.mark.parametrize(("name", "options"), OPTIONS, ids=str)
def test_options_arrive(name: str, options: dict[str, Any]) -> None:
    call = {"LayerNorm": functional.layer_norm, "RMSNorm": functional.rms_norm}[name]
    layer = filled(getattr(normkit, name)(WIDTH, **options))
    plain = filled(getattr(normkit, name)(WIDTH))
    x = torch.randn(16, WIDTH).bfloat16()
    arguments = {"bias": layer.bias, "eps": layer.eps, **options}
    assert equal(layer(x), call(x, WIDTH, layer.weight, **arguments))
    assert not equal(layer(x), plain(x))


@pytest.mark.parametrize("name", ["LayerNorm", "RMSNorm"])
def test_a_new_zero_centred_layer_is_a_new_plain_one(name: str) -> None:
    x = torch.randn(4, WIDTH)
    new, plain = getattr(normkit, name)(WIDTH, zero_centred=True), getattr(normkit, name)(WIDTH)
    assert equal(new(x), plain(x))
    assert new.weight.abs().sum() == 0


@pytest.mark.parametrize("name", ["BatchNorm1d", "MaskedBatchNorm"])
def test_eps_of_batch_norms_arrives_in_training_and_evaluation(name: str) -> None:
    layer = getattr(normkit, name)(3, eps=0.5).double()
    x = torch.randn(6, 3, dtype=torch.float64)
    want = (x - x.mean(0)) / (x.var(0, correction=0) + 0.5).sqrt()
    torch.testing.assert_close(layer(x), want)
    want = (x - layer.running_mean) / (layer.running_var + 0.5).sqrt()
    torch.testing.assert_close(layer.eval()(x), want)


@pytest.mark.parametrize(
    ("x", "weight", "promoted"),
    [
        (torch.bfloat16, torch.float32, torch.float32),
        (torch.float32, torch.bfloat16, torch.float32),
        (torch.float16, torch.bfloat16, torch.float32),
        (torch.float16, torch.float16, torch.float16),
        (torch.float32, torch.float64, torch.float64),
    ],
    ids=str,
)
def test_promoted_dtype_is_that_of_a_product(
    x: torch.dtype, weight: torch.dtype, promoted: torch.dtype
) -> None:
    y = functional.rms_norm(
        torch.randn(2, WIDTH).to(x), WIDTH, torch.ones(WIDTH, dtype=weight), output_dtype="promoted"
    )
    assert y.dtype == promoted


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_gradient_of_the_gain_sees_the_value_that_it_multiplied(
    dtype: torch.dtype, impl: str
) -> None:
    x, dy = torch.randn(2, 64, WIDTH).to(dtype)
    weight = torch.ones(WIDTH, requires_grad=True)
    how: Any = {"rounding": "before_gain", "output_dtype": "weight", "impl": impl}
    y = functional.rms_norm(x, WIDTH, weight, 1e-6, **how)
    y.backward(dy.float())
    assert weight.grad is not None
    # With a gain of 1 and a float32 output, y is the rounded value itself.
    assert torch.equal(y.detach(), y.detach().to(dtype).float())
    products = dy.double() * y.detach().double()
    assert_within(
        weight.grad,
        products.sum(0),
        compute_dtype=compute_dtype(impl, x),
        terms=len(x),
        row_scale=sum_scale(products, axes=(0,)),
    )
