"""LayerNorm: its options, and the sentence for every wrong input."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from torch import nn

import normkit
from normkit.errors import DtypeError, OptionError, ShapeError
from normkit.functional import layer_norm
from tests.norms.impls import IMPLS

X = torch.tensor([[1.0, 2.0, 3.0, 6.0]], dtype=torch.float64)


@pytest.mark.parametrize(
    "shape", [4, (4,), [4], torch.Size([4]), np.int64(4)], ids=lambda s: type(s).__name__
)
def test_every_way_to_write_a_shape(shape: object) -> None:
    layer = normkit.LayerNorm(shape)  # type: ignore[arg-type]
    assert layer.normalized_shape == (4,)
    assert type(layer.normalized_shape[0]) is int
    assert torch.equal(layer(X.float()), normkit.LayerNorm(4)(X.float()))


@pytest.mark.parametrize(("shape", "count"), [((3,), 8), ((2, 3), 4), ((4, 2, 3), 1)])
def test_how_many_statistics(shape: tuple[int, ...], count: int) -> None:
    x = torch.randn(4, 2, 3, dtype=torch.float64)
    y = layer_norm(x, shape, eps=0.0).reshape(count, -1)
    torch.testing.assert_close(y.mean(-1), torch.zeros(count).double())
    torch.testing.assert_close(y.var(-1, correction=0), torch.ones(count).double())


def test_places_of_eps_by_number() -> None:
    # mean 3, deviations -2 -1 0 3, variance 3.5
    std, around = 3.5**0.5, X - 3
    for place, divisor in (("inside", 4.5**0.5), ("outside", std + 1), ("clamp", std)):
        got = layer_norm(X, 4, eps=1.0, eps_place=place)  # type: ignore[arg-type]
        torch.testing.assert_close(got, around / divisor)
    got = layer_norm(X, 4, eps=2.0, eps_place="clamp")
    torch.testing.assert_close(got, around / 2)


def test_zero_centred_gain_is_one_plus_weight() -> None:
    layer = normkit.LayerNorm(4, zero_centred=True, dtype=torch.float64)
    assert layer.weight.abs().sum() == 0
    plain = normkit.LayerNorm(4, dtype=torch.float64)
    assert torch.equal(layer(X), plain(X))
    with torch.no_grad():
        layer.weight.fill_(0.5)
        plain.weight.fill_(1.5)
    assert torch.equal(layer(X), plain(X))


def test_zero_centred_adds_one_in_the_compute_dtype() -> None:
    # In bfloat16, 1 + 2^-9 is 1: the gain would never leave 1.
    x = torch.tensor([[1.0, -1.0]])
    weight = torch.full((2,), 2.0**-9, dtype=torch.bfloat16)
    y = layer_norm(x, 2, weight, eps=0.0, zero_centred=True)
    assert y.tolist() == [[1 + 2.0**-9, -1 - 2.0**-9]]


def test_repr_shows_options_that_torch_does_not_have() -> None:
    layer = normkit.LayerNorm(4, eps_place="outside", zero_centred=True)
    want = "(4,), eps=1e-05, elementwise_affine=True, bias=True, eps_place='outside', zero_centred"
    assert repr(layer) == f"LayerNorm({want}=True)"
    assert repr(normkit.LayerNorm(4)) == repr(nn.LayerNorm(4))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: normkit.LayerNorm((2, 3))(torch.ones(4, 3, 2)),
            ShapeError,
            "layer_norm: the last 2 axes of x must be (2, 3); x is (4, 3, 2). "
            "Try normalized_shape=(3, 2), or x.transpose(-1, -2).",
        ),
        (
            lambda: layer_norm(torch.ones(2, 4, dtype=torch.int64), 4),
            DtypeError,
            "layer_norm: x must be a floating-point tensor; x is torch.int64. Try x.float().",
        ),
        (
            lambda: layer_norm(X, 4, torch.ones(3)),
            ShapeError,
            "layer_norm: weight must have the shape of the normalised axes, (4,); it is (3,).",
        ),
        (
            lambda: layer_norm(X, 4, None, torch.ones(1, 4)),
            ShapeError,
            "layer_norm: bias must have the shape of the normalised axes, (4,); it is (1, 4).",
        ),
        (
            lambda: layer_norm(X, 4, eps=-1.0),
            OptionError,
            "layer_norm: eps must be finite and at least 0; it is -1.0.",
        ),
        (
            lambda: layer_norm(X, 4, impl="cuda"),
            OptionError,
            "layer_norm: impl must be 'auto', 'torch' or 'cpu'; impl is 'cuda'.",
        ),
        (
            lambda: normkit.LayerNorm(4, eps_place="middle"),  # type: ignore[arg-type]
            OptionError,
            "LayerNorm: eps_place must be 'inside', 'outside' or 'clamp'; eps_place is 'middle'.",
        ),
        (
            lambda: normkit.LayerNorm(()),
            ShapeError,
            "LayerNorm: normalized_shape must name at least one axis; it is (). "
            "Try normalized_shape=x.shape[-1].",
        ),
        (
            lambda: normkit.LayerNorm(4.0),  # type: ignore[arg-type]
            ShapeError,
            "LayerNorm: normalized_shape must be an integer or a sequence of integers; it is 4.0.",
        ),
    ],
)
def test_wrong_input_gets_a_sentence(call: object, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        call()  # type: ignore[operator]


def test_auto_takes_the_last_of_the_implementations() -> None:
    x = 1e3 + torch.randn(64, 100)
    results = [layer_norm(x, 100, impl=impl) for impl in IMPLS]
    assert torch.equal(layer_norm(x, 100), results[-1])
    assert all(torch.equal(a, results[0]) for a in results) == (len(results) == 1)
