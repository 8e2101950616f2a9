"""The compiled kernel of the gated RMSNorm: its bound, its exponential, and rows out of range."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from normkit.errors import ImplError
from normkit.functional import gated_rms_norm
from normkit.measure import assert_within, ulp_error
from tests.norms.regimes import DTYPES, REGIMES
from tests.norms.test_gated_rms_norm import check, draw
from tests.norms.truth import Wide, narrow, wide

PLACES = ("after", "before")
every_place = pytest.mark.parametrize("place", PLACES)
HALVES = (torch.float16, torch.bfloat16)


def run(leaves: list[Tensor | None], dy: Tensor, impl: str = "cpu", **options: Any) -> list[Tensor]:
    """y and the gradients of the leaves: x, gate, weight, bias."""
    leaves = [None if t is None else t.detach().requires_grad_() for t in leaves]
    x, gate, weight, bias = leaves
    assert x is not None
    assert gate is not None
    y = gated_rms_norm(x, gate, x.shape[-1], weight, bias=bias, impl=impl, **options)
    there = [t for t in leaves if t is not None]
    return [y.detach(), *torch.autograd.grad(y, there, dy)]


@every_place
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_within_the_bound_in_every_regime(dtype: torch.dtype, place: str) -> None:
    for (name, regime), (rows, width) in itertools.product(
        REGIMES.items(), [(5, 1), (7, 33), (3, 257)]
    ):
        x, dy = regime(rows, width, dtype), torch.randn(rows, width).to(dtype)
        _, gate, weight, bias = draw(rows, width, dtype=dtype)
        assert check(place, [x.clone(), gate, weight, bias], dy, impl="cpu"), name


def test_the_exponential() -> None:
    # x_hat of a row of ones is 1, so that y is the sigmoid alone.
    gate = torch.linspace(-79.9, 120, 200001)
    y = gated_rms_norm(
        torch.ones_like(gate), gate, len(gate), eps=0.0, gate_function="sigmoid", impl="cpu"
    )
    assert ulp_error(y, torch.sigmoid(gate.double())).max() < 3
    y = gated_rms_norm(torch.ones_like(gate), gate, len(gate), eps=0.0, impl="cpu")
    assert ulp_error(y, torch.nn.functional.silu(gate.double())).max() < 4


@pytest.mark.parametrize("function", ["silu", "sigmoid"])
def test_gates_of_any_size(function: Any) -> None:
    gate = torch.tensor([[0.0, -0.0, 1e-30, 85, -85, 103, -103, 1e30, -1e30]]).t()
    x = torch.tensor([[1.0, -2.0]]).expand(len(gate), 2)
    dy = torch.tensor([[1.0, 3.0]]).expand(len(gate), 2)
    for place in PLACES:
        options: dict[str, Any] = {"gate_function": function, "eps": 1e-9, "gate_place": place}
        got = run([x, gate, None, None], dy, **options)
        want = run([x, gate, None, None], dy, impl="torch", **options)
        for a, b in zip(got, want, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-36)
    endless = torch.tensor([[float("inf")], [-float("inf")], [float("nan")], [2.0]])
    y = gated_rms_norm(torch.ones(4, 1), endless, 1, eps=0.0, gate_function=function, impl="cpu")
    want = (torch.sigmoid if function == "sigmoid" else torch.nn.functional.silu)(endless)
    torch.testing.assert_close(y, want, equal_nan=True, rtol=1e-5, atol=0)


@every_place
@pytest.mark.parametrize(("gate", "function"), [(-100, "silu"), (100, "sigmoid"), (-700, "silu")])
def test_a_gate_near_zero_beside_a_huge_number(place: Any, gate: float, function: Any) -> None:
    # silu(-100) is below float32, and so is the slope of sigmoid(100); times 1e38 neither is small.
    x = 1e38 * torch.tensor([[1.0, -2.0, 0.5, 3.0]])
    gates, weight = gate + torch.arange(4.0).reshape(1, 4), 1e30 * torch.ones(4)
    dy = torch.randn(1, 4)
    options: dict[str, Any] = {"gate_place": place, "gate_function": function}
    y, dx, dgate, dweight = run([x, gates, weight, None], dy, eps=1e-9, **options)
    leaves = [t.double().requires_grad_() for t in (x, gates, weight)]
    rest = torch.sigmoid(-leaves[1])  # 1 - sigmoid, with all digits
    a = torch.sigmoid(leaves[1]) * (leaves[1] if function == "silu" else 1)
    u = leaves[0] * a if place == "before" else leaves[0]
    y64 = u * torch.rsqrt(u.square().mean(-1, keepdim=True) + 1e-9) * leaves[2]
    y64 = y64 if place == "before" else y64 * a
    want = [y64, *torch.autograd.grad(y64, leaves, dy.double())]
    if function == "sigmoid" and place == "after":  # autograd's slope is rounded to 0
        want[2] = dy.double() * y64 * rest
    for i, (got, true) in enumerate(zip((y, dx, dgate, dweight), want, strict=True)):
        if function == "sigmoid" and place == "before" and i == 2:
            continue
        torch.testing.assert_close(got, true.float(), rtol=1e-5, atol=0)


@pytest.mark.parametrize("size", [1e-300, 1.0, 1e150, 1e300])
@pytest.mark.parametrize("gate_size", [1.0, 1e150, 1e300])
def test_a_product_beyond_float64(size: float, gate_size: float) -> None:
    x = size * torch.tensor([[1.0, -2.0, 0.5, 0.0]], dtype=torch.float64)
    gate = gate_size * torch.tensor([[40.0, 50.0, 60.0, 70.0]], dtype=torch.float64)
    dy = torch.tensor([[1.0, 2.0, 3.0, 4.0]], dtype=torch.float64)
    got = run([x, gate, None, None], dy, eps=1e-9, gate_place="before")
    u = wide(x) * wide(gate)  # silu is the identity here
    divisor = np.sqrt((u**2).mean() + Wide(1e-9))
    y = u / divisor
    du = (wide(dy) - y * (wide(dy) * y).mean()) / divisor
    for a, b in zip(got, (y, du * wide(gate), du * wide(x)), strict=True):
        torch.testing.assert_close(a, narrow(b), rtol=1e-9, atol=0)


@pytest.mark.parametrize("rounding", ["once", "before_gain"])
@pytest.mark.parametrize("dtype", HALVES, ids=str)
@every_place
def test_rounding(place: Any, dtype: torch.dtype, rounding: Any) -> None:
    # In half, a rounding in another place differs in every fourth number or so.
    x, gate, weight, bias = draw(64, 96, dtype=dtype)
    dy = torch.randn(64, 96).to(dtype)
    for parameters in ((weight, bias), (weight.float(), None), (None, bias)):
        for groups in (1, 3):
            options = {"gate_place": place, "rounding": rounding, "groups": groups}
            leaves = [x, gate, *parameters]
            got, want = run(leaves, dy, **options), run(leaves, dy, impl="torch", **options)
            for a, b in zip(got, want, strict=True):
                if a.dtype == dtype:
                    assert (a != b).double().mean() < 0.02
                torch.testing.assert_close(a.float(), b.float(), rtol=0.01, atol=0.01)


@every_place
@pytest.mark.parametrize("options", [{}, {"gate_function": "sigmoid"}, {"zero_centred": True}])
def test_options_and_missing_parameters(place: Any, options: dict[str, Any]) -> None:
    for dtype in (torch.float32, torch.float64):
        x, gate, weight, bias = draw(5, 7, 12, dtype=dtype)
        dy = torch.randn(5, 7, 12).to(dtype)
        for leaves in ((x, gate, weight, bias), (x, gate, None, bias), (x, gate, weight, None)):
            for groups in (1, 4):
                given = {**options, "gate_place": place, "groups": groups}
                got = run([*leaves], dy, **given)
                want = run([*leaves], dy, impl="torch", **given)
                for a, b in zip(got, want, strict=True):
                    tolerance = 1e-5 if dtype == torch.float32 else 1e-13
                    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


@every_place
def test_strides_dtypes_and_broadcast_gates(place: Any) -> None:
    x = torch.randn(6, 8, 4).permute(2, 0, 1)
    both = torch.randn(4, 6, 16)
    weight, bias = torch.randn(2, 16)[:, ::2]
    dy = torch.randn(4, 1, 1).expand(4, 6, 8)
    gates = (both[..., :8], both[..., ::2], both[:, :1, 8:], both[0, 0, :8], both[..., :1])
    gates = (*gates, both[..., :8].bfloat16(), both[:1, :, :8].half())
    for gate in gates:
        got = run([x, gate, weight, bias], dy, gate_place=place)
        want = run([x, gate, weight, bias], dy, impl="torch", gate_place=place)
        for a, b in zip(got, want, strict=True):
            assert a.dtype == b.dtype
            exact = torch.finfo(a.dtype).bits == 32
            tolerance = 2e-5 if exact else 1e-2
            torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)
    gate = both[..., :8]
    dense = [t.contiguous() for t in (x, gate, weight, bias)]
    for a, b in zip(
        run([x, gate, weight, bias], dy, gate_place=place),
        run([*dense], dy.contiguous(), gate_place=place),
        strict=True,
    ):
        assert torch.equal(a, b)


@every_place
def test_threads_change_no_bit(place: Any) -> None:
    leaves, dy = draw(1500, 40, dtype=torch.float32), torch.randn(1500, 40)
    results = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        results.append(run([*leaves], dy, gate_place=place, groups=2))
    torch.set_num_threads(1)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


@every_place
def test_only_what_is_asked_for(place: Any) -> None:
    leaves, dy = draw(5, 8, dtype=torch.bfloat16), torch.randn(5, 8).bfloat16()
    whole = run([*leaves], dy, gate_place=place)[1:]
    for i, want in enumerate(whole):
        x, gate, weight, bias = (t.detach().requires_grad_(i == j) for j, t in enumerate(leaves))
        y = gated_rms_norm(x, gate, 8, weight, bias=bias, gate_place=place, impl="cpu")
        y.backward(dy)
        assert torch.equal((x, gate, weight, bias)[i].grad, want)


def test_long_rows_and_none() -> None:
    x, gate, weight, bias = draw(1, 40000, dtype=torch.float32)
    got = run([x, gate, weight, bias], x)
    want = run([x, gate, weight, bias], x, impl="torch")
    for a, b in zip(got, want, strict=True):
        assert_within(a, b.double(), compute_dtype=torch.float32, terms=40000, row_scale=10)
    empty = torch.zeros(0, 4)
    assert [t.shape for t in run([empty, empty, None, None], empty)] == [(0, 4)] * 3
    assert run([empty, empty, torch.ones(4), None], empty)[3].count_nonzero() == 0


def test_a_gate_that_would_be_rounded_is_refused() -> None:
    with pytest.raises(
        ImplError, match=r"a parameter is torch\.float64 beside x of torch\.float32"
    ):
        gated_rms_norm(torch.ones(2, 4), torch.ones(2, 4).double(), 4, impl="cpu")
