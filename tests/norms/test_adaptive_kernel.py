"""The compiled kernel of the adaptive norms: its bound, and who shares a row of scale and shift."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from normkit.errors import ImplError
from normkit.functional import adaptive_layer_norm, adaptive_rms_norm
from normkit.measure import assert_within, input_gradient_scale, output_scale
from normkit.measure.bound import largest
from normkit.ops.rows import summed_to
from tests.norms.regimes import DTYPES, REGIMES
from tests.norms.truth import row_truth

CALL = {"layer": adaptive_layer_norm, "rms": adaptive_rms_norm}
every_norm = pytest.mark.parametrize("name", CALL)

X = (3, 5, 4)  # and an axis of features: samples, frames, tokens
SHAPES: dict[str, tuple[tuple[int, ...], tuple[int, ...] | None]] = {
    "samples": ((3, 1, 1), (3, 1, 1)),
    "frames": ((3, 5, 1), (3, 5, 1)),
    "tokens": ((3, 5, 4), (3, 5, 4)),
    "for all": ((1,), (1,)),
    "one number": ((), ()),
    "positions": ((5, 4), (1, 5, 4)),
    "frames of all samples": ((1, 5, 1), (5, 1)),
    "all but frames": ((3, 1, 4), (3, 1, 4)),
    "scale of samples, shift of positions": ((3, 1, 1), (5, 4)),
    "no shift": ((3, 1, 1), None),
}


def run(name: str, leaves: list[Tensor], dy: Tensor, impl: str = "cpu") -> list[Tensor]:
    """y and the gradients of the leaves: x, scale and perhaps shift."""
    x, *given = leaves = [t.detach().requires_grad_() for t in leaves]
    y = CALL[name](x, x.shape[-1], *given, eps=1e-5, impl=impl)
    return [y.detach(), *torch.autograd.grad(y, leaves, dy)]


def draw(
    shapes: tuple[tuple[int, ...], tuple[int, ...] | None], width: int, dtype: torch.dtype
) -> list[Tensor]:
    """Scale, and shift where it has a shape."""
    full = [(*s, width) if s is not None else None for s in shapes]
    return [0.3 * torch.randn(s, dtype=torch.float64).to(dtype) for s in full if s is not None]


def check(name: str, x: Tensor, given: list[Tensor], dy: Tensor) -> None:
    """Hold y and all gradients to the bound of a computation in float32, or float64 for that."""
    width = x.shape[-1]
    scale, shift = [*given, torch.zeros(width, dtype=x.dtype)][:2]
    parameters = (1 + scale.double(), shift.double())
    gain, bias = (t.expand(x.shape).reshape(-1, width) for t in parameters)
    rows, dy_rows = x.reshape(-1, width), dy.reshape(-1, width)
    truth = row_truth(rows, dy_rows, gain, bias, center=name == "layer", eps=1e-5)
    inputs = input_gradient_scale(truth.g, truth.x_hat, truth.inverse, center=name == "layer")
    by_shift = truth.bias_terms.abs()
    by_scale = by_shift * largest(truth.x_hat, (-1,))
    expected = [
        (truth.y, width, output_scale(truth.x_hat, gain, bias)),
        (truth.dx, width, inputs),
        (truth.weight_terms, x.numel() // scale.numel(), by_scale),
        (truth.bias_terms, x.numel() // shift.numel(), by_shift),
    ]
    compute = torch.promote_types(x.dtype, torch.float32)
    for result, (true, terms, size) in zip(run(name, [x, *given], dy), expected, strict=False):
        sums, sizes = (
            summed_to(t.expand(true.shape).reshape(x.shape), result.shape) for t in (true, size)
        )
        assert_within(result, sums, compute_dtype=compute, terms=terms, row_scale=sizes)


@every_norm
@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES.keys())
def test_whoever_shares_a_row(name: str, shapes: Any) -> None:
    for dtype in DTYPES:
        x, dy = torch.randn(2, *X, 9, dtype=torch.float64).to(dtype)
        check(name, x, draw(shapes, 9, dtype), dy)


@every_norm
@pytest.mark.parametrize("regime", REGIMES.values(), ids=REGIMES.keys())
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_regime(name: str, dtype: torch.dtype, regime: Any) -> None:
    for rows, width in ((6, 1), (6, 33), (30, 257)):
        x, dy = regime(rows, width, dtype), torch.randn(rows, width).to(dtype)
        x, dy = (t.unflatten(0, (3, rows // 3)) for t in (x, dy))
        for lead in ((3, 1), (3, rows // 3)):
            check(name, x, draw((lead, lead), width, dtype), dy)


@every_norm
def test_scale_and_shift_of_other_dtypes(name: str) -> None:
    for dtype, other in ((torch.bfloat16, torch.float32), (torch.float64, torch.float16)):
        x, dy = torch.randn(2, 6, 40, 9).to(dtype)
        for lead in ((6, 1), (6, 40), (1, 40), ()):
            given = [*draw((lead, lead), 9, other)]
            check(name, x, given, dy)
            for g, t in zip(run(name, [x, *given], dy)[2:], given, strict=True):
                assert g.dtype == other
                assert g.shape == t.shape


@every_norm
def test_strides_of_any_kind(name: str) -> None:
    # Scale and shift are most often two parts of the output of one Linear.
    x = torch.randn(6, 8, 4).permute(2, 0, 1)
    shift, scale, _ = torch.randn(4, 1, 24).chunk(3, -1)
    dy = torch.randn(8, 1, 6).transpose(0, 2).expand(6, 4, 8).transpose(0, 1)
    got = run(name, [x, scale, shift], dy)
    want = run(name, [t.contiguous() for t in (x, scale, shift)], dy.contiguous())
    for a, b in zip(got, want, strict=True):
        assert torch.equal(a, b)
    half = torch.randn(4, 1, 16)[..., ::2]
    assert torch.equal(
        run(name, [x, half, half], dy)[0], run(name, [x, half.clone(), half.clone()], dy)[0]
    )


@every_norm
@pytest.mark.parametrize("lead", [(2, 1), (40, 1), (40, 90), (1,)], ids=str)
def test_threads_change_no_bit(name: str, lead: tuple[int, ...]) -> None:
    x, dy = torch.randn(2, 40, 90, 24)
    if lead == (2, 1):
        x, dy = x.reshape(2, 1800, 24), dy.reshape(2, 1800, 24)
    scale, shift = torch.randn(2, *lead, 24)
    results = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        results.append(run(name, [x, scale, shift], dy))
    torch.set_num_threads(1)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


@every_norm
def test_a_sample_does_not_depend_on_others(name: str) -> None:
    x, dy = torch.randn(2, 9, 40, 7)
    scale, shift = torch.randn(2, 9, 1, 7)
    whole = run(name, [x, scale, shift], dy)
    for i in (0, 8):
        part = slice(i, i + 1)
        alone = run(name, [x[part], scale[part], shift[part]], dy[part])
        assert all(torch.equal(a[part], b) for a, b in zip(whole, alone, strict=True))


@every_norm
def test_only_what_is_asked_for(name: str) -> None:
    x, dy = torch.randn(2, 3, 5, 7)
    leaves = [x, *torch.randn(2, 3, 1, 7)]
    whole = run(name, leaves, dy)[1:]
    for i, want in enumerate(whole):
        given = [t.detach().requires_grad_(i == j) for j, t in enumerate(leaves)]
        CALL[name](given[0], 7, *given[1:], eps=1e-5, impl="cpu").backward(dy)
        torch.testing.assert_close(given[i].grad, want, rtol=0, atol=0)


@every_norm
def test_one_row_of_many_features(name: str) -> None:
    x, dy = torch.randn(2, 1, 3, 40000)
    check(name, x, draw(((1, 1), (1, 1)), 40000, torch.float32), dy)


@every_norm
def test_nothing_to_do(name: str) -> None:
    for shape, lead in (((0, 3, 4), (0, 1)), ((2, 0, 4), (2, 1))):
        given = [torch.zeros(*lead, shape[-1]) for _ in range(2)]
        y, dx, dscale, dshift = run(name, [torch.zeros(shape), *given], torch.zeros(shape))
        assert y.shape == dx.shape == shape
        assert dscale.shape == dshift.shape == given[0].shape
        assert dscale.count_nonzero() == dshift.count_nonzero() == 0


@every_norm
def test_a_constant_row_gives_the_shift(name: str) -> None:
    x, shift = torch.full((2, 3, 8), 1000.1), torch.randn(2, 1, 8)
    y = CALL["layer"](x, 8, torch.randn(2, 1, 8), shift, impl="cpu")
    assert torch.equal(y, shift.expand(2, 3, 8))
    assert math.isfinite(run(name, [x, shift, shift], x)[1].sum())


def test_a_scale_that_would_be_rounded_is_refused() -> None:
    with pytest.raises(
        ImplError, match=r"a parameter is torch\.float64 beside x of torch\.float32"
    ):
        adaptive_rms_norm(torch.ones(2, 4), 4, torch.ones(4).double(), impl="cpu")
