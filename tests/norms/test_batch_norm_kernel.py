"""batch_norm and group_norm where a compiled kernel computes them: bound, masks, order, layouts."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from normkit.functional import batch_norm, group_norm
from normkit.measure import assert_within, input_gradient_scale, output_scale, sum_scale
from tests.norms.regimes import DTYPES, REGIMES, Regime
from tests.norms.truth import row_truth

SHAPES = [(2, 3, 33), (3, 2, 257), (5, 2, 3)]  # (B, C, R)


def run(x: Tensor, dy: Tensor, weight: Tensor, bias: Tensor, **options: Any) -> list[Tensor]:
    """y and the gradients of x, weight, bias, with the statistics of x."""
    leaves = [t.detach().requires_grad_() for t in (x, weight, bias)]
    y = batch_norm(leaves[0], None, None, *leaves[1:], training=True, **options).y
    return [y.detach(), *torch.autograd.grad(y, leaves, dy)]


def grouped(x: Tensor, dy: Tensor, weight: Tensor, bias: Tensor, **options: Any) -> list[Tensor]:
    """The same for two groups of channels."""
    leaves = [t.detach().requires_grad_() for t in (x, weight, bias)]
    y = group_norm(leaves[0], 2, *leaves[1:], **options)
    return [y.detach(), *torch.autograd.grad(y, leaves, dy)]


@pytest.mark.parametrize("regime", REGIMES.values(), ids=REGIMES.keys())
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("masked", [False, True], ids=["whole", "masked"])
def test_is_within_the_bound(masked: bool, dtype: torch.dtype, regime: Regime) -> None:
    compute = torch.float64 if dtype == torch.float64 else torch.float32
    for B, C, R in SHAPES:
        n = B * R
        x, dy = regime(C, n, dtype), torch.randn(C, n).to(dtype)
        weight, bias = (1 + 0.3 * torch.randn(2, C)).to(dtype)
        valid = torch.rand(B, R) < 0.7 if masked else None
        measured = None if valid is None else valid.flatten()
        gain, shift = weight.double()[:, None], bias.double()[:, None]
        truth = row_truth(
            x, dy, gain, shift, center=True, eps=1e-5, measured=measured, zero_unmeasured=masked
        )
        image, image_dy = (t.reshape(C, B, R).movedim(0, 1).contiguous() for t in (x, dy))
        y, dx, dweight, dbias = run(image, image_dy, weight, bias, valid=valid)
        wide = truth.bias_terms * truth.x_hat.abs().amax(-1, keepdim=True)
        for got, want, scale, what in (
            (rows(y), truth.y, output_scale(truth.x_hat, gain, shift), "y"),
            (rows(dx), truth.dx, input_gradient_scale(truth.g, truth.x_hat, truth.inverse), "dx"),
            (dweight, truth.weight_terms.sum(1), sum_scale(wide, axes=(1,)), "dw"),
            (dbias, truth.bias_terms.sum(1), sum_scale(truth.bias_terms, axes=(1,)), "db"),
        ):
            assert_within(got, want, compute_dtype=compute, terms=n, row_scale=scale, what=what)


def rows(t: Tensor) -> Tensor:
    """(B, C, R) as one row for each channel."""
    return t.movedim(1, 0).flatten(1)


@pytest.mark.parametrize("norm", [run, grouped])
@pytest.mark.parametrize("nothing", [float("nan"), float("inf"), 1e38])
def test_what_stands_where_the_mask_is_false_counts_nowhere(norm: Any, nothing: float) -> None:
    x, dy = torch.randn(2, 3, 4, 50)
    weight, bias = torch.randn(2, 4)
    valid = torch.rand(3, 50) < 0.6
    valid[1] = False
    want = norm(x, dy, weight, bias, valid=valid)
    spoilt, spoilt_dy = (torch.where(valid[:, None], t, nothing) for t in (x, dy))
    for a, b in zip(norm(spoilt, spoilt_dy, weight, bias, valid=valid), want, strict=True):
        assert torch.equal(a, b)
    for t in want[:2]:
        assert not t.movedim(1, -1)[~valid].any()


@pytest.mark.parametrize("norm", [run, grouped])
def test_padding_changes_no_bit(norm: Any) -> None:
    x, dy = torch.randn(2, 3, 4, 50)
    weight, bias = torch.randn(2, 4)
    want = norm(x, dy, weight, bias)
    longer, longer_dy = (torch.nn.functional.pad(t, (0, 14), value=3.0) for t in (x, dy))
    valid = (torch.arange(64) < 50).expand(3, 64)
    y, dx, *gradients = norm(longer, longer_dy, weight, bias, valid=valid)
    for a, b in zip((y[..., :50], dx[..., :50], *gradients), want, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("norm", [run, grouped])
def test_threads_change_no_bit(norm: Any) -> None:
    x, dy = torch.randn(2, 3, 6, 9000)
    weight, bias = torch.randn(2, 6)
    one = norm(x, dy, weight, bias)
    torch.set_num_threads(3)
    for a, b in zip(norm(x, dy, weight, bias), one, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("norm", [run, grouped])
def test_a_huge_group_is_right_and_leaves_the_others_alone(norm: Any) -> None:
    x, dy = torch.randn(2, 2, 4, 40)
    weight, bias = torch.randn(2, 4)
    want = norm(x, dy, weight, bias)
    huge = x.clone()
    huge[:, :2] *= 1e30
    found, truth = norm(huge, dy, weight, bias), norm(huge, dy, weight, bias, impl="torch")
    for a, b, c in zip(found, truth, want, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)
        if a.dim() == 3:
            assert torch.equal(a[:, 2:], c[:, 2:])
    assert found[1][:, :2].abs().max() > 0
    torch.testing.assert_close(found[1][:, :2] * 1e30, truth[1][:, :2] * 1e30)


def test_statistics_are_those_of_the_torch_operations() -> None:
    x = torch.randn(3, 4, 30) * 5 + 100
    for valid in (None, torch.rand(3, 30) < 0.5):
        running = (torch.zeros(4), torch.ones(4))
        ours, theirs = (
            batch_norm(x, *running, training=True, valid=valid, impl=impl)
            for impl in ("auto", "torch")
        )
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-6, atol=2e-5)


@pytest.mark.parametrize("needed", range(1, 8))
@pytest.mark.parametrize("norm", ["batch", "group"])
def test_every_selection_of_gradients(norm: str, needed: int) -> None:
    x, dy = torch.randn(2, 2, 6, 45)
    tensors = (x, *torch.randn(2, 6))
    whole = (run if norm == "batch" else grouped)(x, dy, *tensors[1:])
    leaves = [t.clone().requires_grad_(bool(needed >> i & 1)) for i, t in enumerate(tensors)]
    if norm == "batch":
        y = batch_norm(leaves[0], None, None, *leaves[1:], training=True).y
    else:
        y = group_norm(leaves[0], 2, *leaves[1:])
    wanted = [t for t in leaves if t.requires_grad]
    found = iter(torch.autograd.grad(y, wanted, dy))
    for leaf, want in zip(leaves, whole[1:], strict=True):
        if leaf.requires_grad:
            assert torch.equal(next(found), want)
