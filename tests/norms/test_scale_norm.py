"""ScaleNorm: the bound in 80-bit floats, public formulas, huge rows, sentences."""

from __future__ import annotations

import itertools
import math
import re
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import normkit
from normkit.errors import DtypeError, OptionError, ShapeError
from normkit.functional import rms_norm, scale_norm
from normkit.measure import Margin, assert_within
from tests.norms.regimes import DTYPES, REGIMES, Regime
from tests.norms.truth import Wide, narrow, wide

F64 = torch.float64
PLACES = [("clamp", 1e-5), ("clamp", 0.02), ("inside", 1e-5), ("outside", 1e-2)]
every_place = pytest.mark.parametrize(("place", "eps"), PLACES, ids=str)


def check(
    x: Tensor,
    dy: Tensor,
    weight: Tensor,
    *,
    place: Any,
    eps: float,
    centred: bool,
    impl: str = "torch",
) -> list[Margin]:
    """Hold y and both gradients to the bound: of a float64 computation, in torch operations.

    The truth is in 80-bit floats.
    """
    leaf, gain = x.detach().requires_grad_(), weight.clone().requires_grad_()
    y = scale_norm(leaf, gain, eps, eps_place=place, zero_centred=centred, impl=impl)
    y.backward(dy)
    compute = F64 if impl == "torch" else torch.promote_types(x.dtype, torch.float32)
    assert leaf.grad is not None
    assert gain.grad is not None
    (Y, y_scale), (DX, dx_scale), (DGAIN, dgain_scale) = truths(x, dy, weight, place, eps, centred)
    return [
        assert_within(
            got,
            narrow(truth).reshape(got.shape),
            compute_dtype=compute,
            terms=terms,
            row_scale=narrow(scale),
            what=what,
        )
        for what, got, truth, scale, terms in (
            ("y", y.detach(), Y, y_scale, x.shape[1]),
            ("dx", leaf.grad, DX, dx_scale, x.shape[1]),
            ("dweight", gain.grad, DGAIN, dgain_scale, x.numel()),
        )
    ]


def truths(
    x: Tensor, dy: Tensor, weight: Tensor, place: Any, eps: float, centred: bool
) -> tuple[tuple[Any, Any], ...]:
    """(value, scale of its terms) of y, dx and dweight, in 80-bit floats."""
    X, DY, e = wide(x), wide(dy), Wide(eps)
    root_n = np.sqrt(Wide(x.shape[1]))
    g = root_n * (1 + wide(weight)) if centred else wide(weight)
    s = np.sqrt((X**2).sum(-1, keepdims=True))
    d = {"inside": np.sqrt(s**2 + e), "outside": s + e, "clamp": np.maximum(s, e)}[place]
    u = X / d
    if place == "outside":
        moves = np.divide(d, s, out=np.zeros_like(s), where=s > 0)
    else:
        moves = np.where(s >= e, 1, 0) if place == "clamp" else 1
    dx = g / d * (DY - moves * u * (DY * u).sum(-1, keepdims=True))
    dgain = (DY * u).sum() * (root_n if centred else 1)
    top = np.abs(u).max(-1, keepdims=True)
    of_dx = np.abs(DY).max(-1, keepdims=True) + top * np.abs(DY * u).sum(-1, keepdims=True)
    of_dgain = (np.abs(DY) * top).sum() * (root_n if centred else 1)
    return (g * u, np.abs(g) * top), (dx, np.abs(g) / d * of_dx), (dgain, of_dgain)


@pytest.mark.parametrize("regime", REGIMES.values(), ids=REGIMES.keys())
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@every_place
def test_bound(place: str, eps: float, dtype: torch.dtype, regime: Regime) -> None:
    for rows, width, centred in ((5, 1, False), (7, 33, True), (2, 5000, False)):
        x, dy = regime(rows, width, dtype), torch.randn(rows, width, dtype=F64).to(dtype)
        weight = torch.tensor([0.7]).to(dtype)
        check(x, dy, weight, place=place, eps=eps, centred=centred)


@pytest.mark.parametrize("regime", REGIMES.values(), ids=REGIMES.keys())
@every_place
def test_bound_of_the_kernel(place: str, eps: float, regime: Regime) -> None:
    for dtype, (rows, width, centred) in itertools.product(
        DTYPES, ((5, 1, False), (7, 33, True), (2, 5000, False))
    ):
        x, dy = regime(rows, width, dtype), torch.randn(rows, width, dtype=F64).to(dtype)
        weight = torch.tensor([0.7]).to(dtype)
        check(x, dy, weight, place=place, eps=eps, centred=centred, impl="cpu")
    y = scale_norm(x, torch.tensor(0.7, dtype=F64), impl="cpu")  # a number of any width
    assert y.dtype == x.dtype


@every_place
def test_the_bound_bites(place: str, eps: float) -> None:
    x, dy = torch.randn(2, 64, 257)
    weight = torch.tensor([5.0])
    margins = check(x, dy, weight, place=place, eps=eps, centred=False)
    assert all(m.bites for m in margins[:2])


def test_numbers_by_hand() -> None:
    x = torch.tensor([[3.0, 4.0], [0.0, 1e-6]], dtype=F64, requires_grad=True)
    weight = torch.tensor([10.0], dtype=F64, requires_grad=True)
    y = scale_norm(x, weight)
    torch.testing.assert_close(y, torch.tensor([[6.0, 8.0], [0.0, 1.0]], dtype=F64))
    y.backward(torch.tensor([[1.0, 0.0], [1.0, 1.0]], dtype=F64))
    # The first row turns alone: 2 (1 - 0.36), -2 * 0.48. The second is 10 / 1e-5 times its dy.
    want = torch.tensor([[1.28, -0.96], [1e6, 1e6]], dtype=F64)
    torch.testing.assert_close(x.grad, want)
    torch.testing.assert_close(weight.grad, torch.tensor([0.6 + 0.1], dtype=F64))


def test_the_authors_formula() -> None:
    # tnq177/transformers_without_tears: scale / norm(x).clamp(min=eps), scale starts at sqrt(d)
    x = torch.randn(5, 16, dtype=F64)
    x[0] *= 1e-7
    want = x * (4.0 / torch.norm(x, dim=-1, keepdim=True).clamp(min=1e-5))
    torch.testing.assert_close(normkit.ScaleNorm(16, dtype=F64)(x), want)
    number = torch.tensor(4.0, dtype=F64)  # theirs has no axis
    torch.testing.assert_close(scale_norm(x, number), want)


def test_x_transformers_formula_with_and_without_unit_offset() -> None:
    # lucidrains/x-transformers: normalize(x) * sqrt(d) * (g + 1), g 0; without the offset g, 1
    x, g = torch.randn(5, 16, dtype=F64), torch.tensor([0.3], dtype=F64)
    want = F.normalize(x, dim=-1) * 4.0 * (g + 1)
    torch.testing.assert_close(scale_norm(x, g, 1e-12, zero_centred=True), want)
    torch.testing.assert_close(scale_norm(x, 4 * (g + 1), 1e-12), want)


@every_place
def test_a_new_layer_is_a_weightless_rms_norm(place: Any, eps: float) -> None:
    x = torch.randn(5, 16, dtype=F64)
    rms_eps = eps / 16 if place == "inside" else eps / 4
    want = rms_norm(x, 16, eps=rms_eps, eps_place=place)
    for centred in (False, True):
        layer = normkit.ScaleNorm(16, eps, dtype=F64, eps_place=place, zero_centred=centred)
        torch.testing.assert_close(layer(x), want, rtol=1e-13, atol=0)


def test_no_weight_gives_length_one() -> None:
    y = scale_norm(torch.randn(3, 7, dtype=F64))
    torch.testing.assert_close(y.norm(dim=-1), torch.ones(3, dtype=F64))


@pytest.mark.parametrize("place", ["inside", "outside", "clamp"])
@pytest.mark.parametrize("size", [2.0**479, 2.0**700, 2.0**1019])
def test_huge_float64_rows_keep_their_value(place: Any, size: float) -> None:
    x = size * (2 * torch.rand(3, 5, dtype=F64) - 1)
    dy = torch.randn(3, 5, dtype=F64)
    check(x, dy, torch.tensor([3.0], dtype=F64), place=place, eps=1e-5, centred=False)


def test_squares_that_overflow_the_input_dtype() -> None:
    # pytorch#162489, ConvNeXt#80, EasyLM#50: squares overflow where the result is small.
    for dtype, size in ((torch.float32, 1e30), (torch.bfloat16, 1e30), (torch.float16, 3e4)):
        x = torch.tensor([[1.0, -1.0, 1.0, 1.0]]) * size
        y = scale_norm(x.to(dtype))
        assert y.tolist() == [[0.5, -0.5, 0.5, 0.5]], dtype


@pytest.mark.parametrize("place", ["inside", "outside", "clamp"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rows_of_zeros(place: Any, dtype: torch.dtype) -> None:
    x = torch.zeros(2, 4, dtype=dtype, requires_grad=True)
    weight = torch.ones(1, dtype=dtype, requires_grad=True)
    y = scale_norm(x, weight, eps_place=place)
    y.sum().backward()
    assert y.abs().sum() == 0
    assert x.grad is not None
    assert weight.grad is not None
    root = math.sqrt(1e-5) if place == "inside" else 1e-5
    want = torch.full((2, 4), 1 / root, dtype=F64).to(dtype)
    assert torch.equal(x.grad, want)  # infinite in float16, as 1e5 is
    assert weight.grad.abs().sum() == 0


def test_the_gain_is_one_number() -> None:
    # pytorch#101683, apex#403: outside code reads both attributes of any norm.
    layer = normkit.ScaleNorm(8)
    assert {n: p.shape for n, p in layer.named_parameters()} == {"weight": (1,)}
    assert layer.weight.item() == pytest.approx(math.sqrt(8))
    assert layer.bias is None
    assert layer.eps == 1e-5
    assert normkit.ScaleNorm(8, zero_centred=True).weight.item() == 0
    assert normkit.ScaleNorm(np.int64(8)).width == 8  # type: ignore[arg-type]


def test_zero_centred_adds_the_one_in_full_precision() -> None:
    # Liger-Kernel#74, TransformerEngine#577: 1 + w in bfloat16 loses |w| < 2^-8.
    x = torch.tensor([[3.0, 4.0]])
    weight = torch.tensor([2.0**-12]).bfloat16()
    y = scale_norm(x, weight, zero_centred=True)
    torch.testing.assert_close(y, x / 5 * math.sqrt(2) * (1 + 2.0**-12), rtol=1e-6, atol=0)


@pytest.mark.parametrize("centred", [False, True])
def test_torch_encoder_calls_it(centred: bool) -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 8, dropout=0.0, batch_first=True)
    layer.norm1, layer.norm2 = (normkit.ScaleNorm(8, zero_centred=centred) for _ in range(2))
    layer.eval()
    x = torch.randn(2, 3, 8)
    with torch.no_grad():
        assert torch.equal(layer(x), layer(x.requires_grad_()).detach())


def test_repr() -> None:
    assert repr(normkit.ScaleNorm(8)) == "ScaleNorm(8, eps=1e-05)"
    text = "ScaleNorm(8, eps=0.1, eps_place='inside', zero_centred=True)"
    assert repr(normkit.ScaleNorm(8, 0.1, eps_place="inside", zero_centred=True)) == text


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: normkit.ScaleNorm(8)(torch.ones(2, 4)),
            ShapeError,
            "ScaleNorm: the last axis of x must be the width, 8; x is (2, 4). Try width=4.",
        ),
        (
            lambda: normkit.ScaleNorm(1)(torch.ones(())),
            ShapeError,
            "ScaleNorm: the last axis of x must be the width, 1; x is ().",
        ),
        (
            lambda: normkit.ScaleNorm(0),
            OptionError,
            "ScaleNorm: width must be an integer of at least 1; it is 0.",
        ),
        (
            lambda: normkit.ScaleNorm((4,)),  # type: ignore[arg-type]
            OptionError,
            "ScaleNorm: width must be an integer of at least 1; it is (4,).",
        ),
        (
            lambda: normkit.ScaleNorm(4, eps_place="below"),  # type: ignore[arg-type]
            OptionError,
            "ScaleNorm: eps_place must be 'inside', 'outside' or 'clamp'; eps_place is 'below'.",
        ),
        (
            lambda: normkit.ScaleNorm(4)(torch.ones(2, 4).long()),
            DtypeError,  # pytorch#78444
            "scale_norm: x must be a floating-point tensor; x is torch.int64. Try x.float().",
        ),
        (
            lambda: scale_norm(torch.ones(())),
            ShapeError,
            "scale_norm: x must have at least one axis; it is a single number.",
        ),
        (
            lambda: scale_norm(torch.ones(2, 4), torch.ones(4)),
            ShapeError,
            "scale_norm: weight must be one number, of shape (1,) or (); it is (4,).",
        ),
        (
            lambda: scale_norm(torch.ones(2, 4), eps=-1.0),
            OptionError,
            "scale_norm: eps must be finite and at least 0; it is -1.0.",
        ),
    ],
)
def test_wrong_input_gets_a_sentence(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        call()
