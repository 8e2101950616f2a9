"""Residual sum and norm in one: within the bound in every regime, dropout, dtypes, in place."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from normkit import functional
from normkit.functional import add_rms_norm
from normkit.measure import saved_bytes
from tests.norms.added import (
    ADDED,
    EPS,
    EVERY,
    Added,
    check,
    draw,
    dropping_op,
    every_op,
    over,
)
from tests.norms.regimes import DTYPES, REGIMES, Regime

HALVES = (torch.bfloat16, torch.float16)
every_half = pytest.mark.parametrize("dtype", HALVES, ids=str)


@pytest.mark.parametrize("regime", REGIMES.values(), ids=REGIMES.keys())
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@every_op
def test_within_the_bound_in_every_regime(op: Added, dtype: torch.dtype, regime: Regime) -> None:
    for alpha, (rows, width) in zip((1.0, 1.7, -0.3), ((5, 1), (7, 33), (3, 257)), strict=True):
        x, residual = regime(rows, width, dtype), regime(rows, width, dtype)
        _, _, weight, bias = draw(rows, width, dtype=dtype)
        dy, dh = torch.randn(2, rows, width, dtype=torch.float64).to(dtype)
        check(op, [x.clone(), residual.clone(), weight, bias], dy, dh, alpha)


@every_half
@every_op
def test_a_float32_stream_beside_half_branches(op: Added, dtype: torch.dtype) -> None:
    x, residual, weight, bias = draw(7, 33, dtype=torch.float32)
    dy, dh = torch.randn(7, 33).to(dtype), torch.randn(7, 33)
    check(op, [x.to(dtype), residual, weight, bias], dy, dh, 1.0)
    y, h = op(x.to(dtype), residual)
    assert (y.dtype, h.dtype) == (dtype, torch.float32)


@every_op
def test_the_bound_bites(op: Added) -> None:
    dy, dh = torch.randn(2, 64, 257)
    margins = check(op, draw(64, 257, dtype=torch.float32), dy, dh, 1.7)
    # That of a float32 computation grows with the width, so that not every result comes near it.
    assert (all if op.impl == "torch" else any)(m.bites for m in margins)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@every_op
def test_y_is_the_norm_of_h_as_it_is_returned(op: Added, dtype: torch.dtype) -> None:
    x, residual, weight, bias = draw(5, 3, 33, dtype=dtype)
    y, h = op(x, residual, weight, bias, alpha=1.7)
    assert torch.equal(y, op.norm(h, 33, weight, eps=EPS, bias=bias))
    exact = op.factor(tuple(x.shape)) * x.double() + 1.7 * residual.double()
    assert dtype == torch.float64 or not torch.equal(exact, h.double())


@over(ADDED)
@every_half
def test_y_is_the_norm_of_a_float32_stream(op: Added, dtype: torch.dtype) -> None:
    x, residual, weight, bias = draw(5, 3, 33, dtype=dtype)
    y, h = op(x, residual.float(), weight, bias)
    assert torch.equal(y, op.norm(h.double(), 33, weight, eps=EPS, bias=bias).to(dtype))


@every_op
def test_more_rows_than_are_worked_through_at_once(op: Added) -> None:
    # Two pieces: the second one's mask goes on where the first one's ends.
    leaves = draw(5, 40001, dtype=torch.float32)
    dy, dh = torch.randn(2, 5, 40001)
    check(op, leaves, dy, dh, 1.7)
    x, residual, weight, bias = (t.detach() for t in leaves)
    y, h = op(x, residual, weight, bias)
    into = residual.clone()
    assert torch.equal(op(x, into, weight, bias, inplace=True).y, y)
    assert torch.equal(into, h)


def test_options_arrive() -> None:
    x, residual, weight, bias = (t.bfloat16() for t in draw(16, 8))
    for options in ({"eps": 0.3, "eps_place": "outside"}, {"zero_centred": True}):
        for op in EVERY:
            y, h = op(x, residual, weight, bias, **options)
            want = op.norm(h, 8, weight, **{"eps": EPS, "bias": bias, **options})
            assert torch.equal(y, want)
            assert not torch.equal(y, op(x, residual, weight, bias).y)
    for op in EVERY[1::2]:
        y, h = op(x, residual, weight, rounding="before_gain")
        assert torch.equal(y, op.norm(h, 8, weight, EPS, rounding="before_gain"))
        assert not torch.equal(y, op(x, residual, weight).y)
    whole = add_rms_norm(x, residual, (16, 8), impl="torch")
    assert torch.equal(whole.y, functional.rms_norm(whole.h, (16, 8), impl="torch"))


def test_eps_of_none_is_that_of_the_sum() -> None:
    tiny = torch.full((1, 4), 1e-9, dtype=torch.float64)
    for x in (tiny, tiny.float()):
        y, h = add_rms_norm(x, tiny, 4, impl="torch")
        assert torch.equal(y, functional.rms_norm(h, 4, impl="torch").to(x.dtype))


@every_op
def test_strided_and_expanded_residuals(op: Added) -> None:
    x, residual, weight, bias = draw(6, 4)
    dy, dh = torch.randn(2, 6, 4, dtype=torch.float64)

    def run(x: Tensor, residual: Tensor, dy: Tensor, dh: Tensor) -> list[Tensor]:
        leaves = [t.detach().requires_grad_() for t in (x, residual, weight, bias)]
        outputs = op(*leaves)
        return [*outputs, *torch.autograd.grad(outputs, leaves, (dy, dh))]

    for views in (
        [t.t().contiguous().t() for t in (x, residual, dy, dh)],
        [x, residual[:1].expand(6, 4), dy[:, :1].expand(6, 4), dh[:1].expand(6, 4)],
        [torch.stack([t, t * torch.nan], -1).flatten(-2)[..., ::2] for t in (x, residual, dy, dh)],
    ):
        for a, b in zip(run(*views), run(*(t.contiguous() for t in views)), strict=True):
            assert torch.equal(a, b)


@every_op
def test_a_term_that_overflows_does_not_make_the_sum_infinite(op: Added) -> None:
    # The term that overflows is that of x, divided by 0.75, or alpha times the residual.
    x = torch.full((2, 64), 1.6e308, dtype=torch.float64)
    alpha = 1.0 if op.drops else 1.9
    y, h = op(x, -0.6 * x, alpha=alpha)
    want = op.factor((2, 64)) * (x / 4) - alpha * 0.6 * (x / 4)
    torch.testing.assert_close(h / 4, want)
    assert y.isfinite().all()


def test_large_half_precision_sums_keep_their_norm() -> None:
    x = torch.tensor([[30000.0, -60000.0, 1.0, 0.0]]).half()
    op = ADDED[1]
    y, h = op(x, x.float())
    assert h.isfinite().all()
    torch.testing.assert_close(y, op.norm(2 * x.float(), 4, eps=EPS).half())


@every_op
def test_for_the_backward_pass_the_sum_alone_is_kept(op: Added) -> None:
    x, residual = torch.randn(2, 64, 32)
    weight = torch.ones(32, requires_grad=True)
    for dtype in (torch.float32, torch.bfloat16):
        leaves = [x.to(dtype).requires_grad_(), residual.clone().requires_grad_(), weight]
        kept = saved_bytes(lambda *leaves: op(*leaves), *leaves)
        assert kept.inputs == 32 * 4
        assert kept.new <= 64 * 32 * 4 + 16  # h, a seed, one number that stands for x's dtype


@dropping_op
def test_dropout_is_that_of_the_words(op: Added) -> None:
    x, residual, weight, bias = draw(5, 33)
    for p, seed in ((0.1, 3), (0.5, -1), (0.9, 2**62)):
        got = op(x, residual, weight, bias, p=p, seed=seed).h
        torch.testing.assert_close(got, x * op.factor((5, 33), p, seed) + residual)
        assert torch.equal(op(x, residual, weight, bias, p=p, seed=torch.tensor(seed)).h, got)


@dropping_op
def test_without_dropout_it_is_the_op_without(op: Added) -> None:
    x, residual, weight, bias = draw(5, 33)
    want = Added(op.name.removeprefix("dropout_"), op.impl)(x, residual, weight, bias)
    for options in ({"training": False}, {"p": 0.0}):
        got = op(x, residual, weight, bias, **options)
        assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))
    assert torch.equal(op(x, residual, p=1.0, alpha=0.5).h, 0.5 * residual)


@dropping_op
def test_a_seed_is_drawn_from_the_generator_of_torch(op: Added) -> None:
    x, residual = torch.ones(2, 40, 10)
    torch.manual_seed(5)
    first, second = op(x, residual, seed=None), op(x, residual, seed=None)
    assert not torch.equal(first.h, second.h)
    torch.manual_seed(5)
    assert torch.equal(op(x, residual, seed=None).h, first.h)
    state = torch.get_rng_state()
    op(x, residual, seed=4)
    op(x, residual, seed=None, training=False)
    assert torch.equal(torch.get_rng_state(), state)


@dropping_op
def test_the_mask_keeps_the_mean(op: Added) -> None:
    x, residual = torch.ones(200, 200), torch.zeros(200, 200)
    for p in (0.1, 0.5):
        h = op(x, residual, p=p, seed=None).h
        assert abs(h.mean().item() - 1) < 4 * (p / (1 - p) / h.numel()) ** 0.5


@dropping_op
def test_the_gradient_is_dropped_where_x_was(op: Added) -> None:
    x, residual, weight, bias = draw(5, 33)
    x.requires_grad_()
    y, h = op(x, residual * 0, weight, bias, seed=None)
    (dx,) = torch.autograd.grad((y, h), x, (torch.randn_like(y), torch.randn_like(h)))
    assert torch.equal(dx == 0, h == 0)
    assert 0 < (dx == 0).sum() < dx.numel()


def storage(t: Tensor) -> tuple[Any, ...]:
    """Where a tensor lies."""
    return t.data_ptr(), t.stride()


@every_op
def test_in_place_writes_the_residual(op: Added) -> None:
    x, residual, weight, bias = draw(3, 4, 5)
    wide = torch.stack([residual, residual * torch.nan], -1).flatten(-2)
    want = op(x, residual, weight, bias)
    transposed = residual.transpose(0, 2).contiguous().transpose(0, 2)
    for into in (residual.clone(), wide[..., ::2], transposed):
        place, version = storage(into), into._version
        y, h = op(x, into, weight, bias, inplace=True)
        assert h is into
        assert storage(h) == place
        assert h._version > version
        assert torch.equal(y, want.y)
        assert torch.equal(h, want.h)
    assert wide[..., 1::2].isnan().all()


@every_op
def test_in_place_where_x_lies_in_the_same_memory(op: Added) -> None:
    buffer = torch.randn(40 + 7, 5000)
    for x, residual in (
        (buffer[:40], buffer[:40]),
        (buffer[7:], buffer[:40]),
        (buffer[:40], buffer[7:]),
    ):
        kept = buffer.clone()
        want = op(x.clone(), residual.clone())
        y, h = op(x, residual, inplace=True)
        assert torch.equal(y, want.y)
        assert torch.equal(h, want.h)
        buffer.copy_(kept)


def test_in_place_in_a_float32_stream() -> None:
    x, stream, weight = torch.randn(3, 8).bfloat16(), torch.randn(3, 8), torch.ones(8)
    weight.requires_grad_()
    want = add_rms_norm(x, stream, 8, weight)
    with torch.no_grad():
        y, h = add_rms_norm(x, stream, 8, weight, inplace=True)
    assert h is stream
    assert torch.equal(y, want.y)
    assert torch.equal(h, want.h)


def test_an_empty_batch() -> None:
    for op in EVERY:
        leaves = [t.requires_grad_() for t in draw(0, 4)]
        y, h = op(*leaves)
        gradients = torch.autograd.grad((y.sum() + h.sum()), leaves)
        assert [g.shape for g in gradients] == [leaf.shape for leaf in leaves]
        assert gradients[2].abs().sum() == 0
        x, residual, *_ = (t.detach() for t in leaves)
        assert op(x, residual, inplace=True).h is residual


def test_a_row_does_not_depend_on_other_rows() -> None:
    x, residual, weight, bias = draw(257, 6, dtype=torch.float32)
    without = [op for op in EVERY if not op.drops]  # a mask depends on where a row stands
    for op in without:
        y, h = op(x, residual, weight, bias)
        for i in (0, 100, 256):
            alone = op(x[i], residual[i], weight, bias)
            assert torch.equal(alone.y, y[i])
            assert torch.equal(alone.h, h[i])
