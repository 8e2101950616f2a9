"""Rows at the edges of float64's range, and rows of zeros: where scaling and roots can go wrong."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from normkit import functional
from tests.norms.truth import row_truth

WIDTH = 5
LARGEST = 2.0**1019
# From where squares still fit to where even a sum of elements is near the end of the range.
SIZES = [2.0**400, 2.0**479, 2.0**481, 2.0**500, 2.0**700, LARGEST]

NORMS: dict[str, tuple[Callable[..., Tensor], bool]] = {
    "layer_norm": (functional.layer_norm, True),
    "rms_norm": (functional.rms_norm, False),
}
every_norm = pytest.mark.parametrize("norm", NORMS)
every_place = pytest.mark.parametrize("eps_place", ["inside", "outside", "clamp"])


@every_norm
@every_place
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_huge_float64_rows_keep_their_value(norm: str, eps_place: str, size: float) -> None:
    call, center = NORMS[norm]
    x = size * (2 * torch.rand(3, WIDTH, dtype=torch.float64) - 1)
    one, zero = torch.ones(WIDTH).double(), torch.zeros(WIDTH).double()
    truth = row_truth(x, x, one, zero, center=center, eps=1e-5, eps_place=eps_place)
    y = call(x, WIDTH, eps=1e-5, eps_place=eps_place)
    torch.testing.assert_close(y, truth.y, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_running_statistics_of_huge_float64_channels(size: float) -> None:
    size = min(size, 2.0**500)  # the variance itself must be finite
    x = size * torch.randn(4, 3, dtype=torch.float64)
    zeros = torch.zeros(3, dtype=torch.float64)
    out = functional.batch_norm(x, zeros, zeros, training=True, momentum=1.0)
    assert out.running_mean is not None
    assert out.running_var is not None
    torch.testing.assert_close(out.running_mean / size, (x / size).mean(0), rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(out.running_var / size / size, (x / size).var(0))


@every_place
@pytest.mark.parametrize("value", [0.1, 2.0**-700, 1e150, -1e200, 1e308])
def test_a_constant_float64_row_gives_exactly_the_bias(eps_place: str, value: float) -> None:
    x = torch.full((2, 7), value, dtype=torch.float64)
    weight, bias = torch.full((7,), 1e18, dtype=torch.float64), torch.arange(7).double()
    y = functional.layer_norm(x, 7, weight, bias, 1e-5, eps_place=eps_place)
    assert torch.equal(y, bias.expand(2, 7))


@every_place
@pytest.mark.parametrize("value", [3.0, 2.0**481, -1e200, 1e308])
def test_the_gradient_of_a_constant_float64_row_is_that_of_eps(
    eps_place: str, value: float
) -> None:
    x = torch.full((2, WIDTH), value, dtype=torch.float64, requires_grad=True)
    dy = torch.randn(2, WIDTH, dtype=torch.float64)
    functional.layer_norm(x, WIDTH, eps=0.25, eps_place=eps_place).backward(dy)
    divisor = 0.5 if eps_place == "inside" else 0.25
    torch.testing.assert_close(x.grad, (dy - dy.mean(-1, keepdim=True)) / divisor)
    got = torch.func.grad(
        lambda t: (functional.layer_norm(t, WIDTH, eps=0.25, eps_place=eps_place) * dy).sum()
    )(x.detach())
    torch.testing.assert_close(got, x.grad)


def test_statistics_of_a_huge_constant_channel() -> None:
    x = torch.full((6, 1), -1e200, dtype=torch.float64, requires_grad=True)
    dy = torch.randn(6, 1, dtype=torch.float64)
    statistics = torch.zeros(1, dtype=torch.float64), torch.ones(1, dtype=torch.float64)
    out = functional.batch_norm(x, *statistics, training=True, momentum=1.0, eps=0.25)
    out.y.backward(dy)
    torch.testing.assert_close(x.grad, 2 * (dy - dy.mean()))
    assert (out.running_mean, out.running_var) == (-1e200, 0.0)


def test_a_huge_constant_channel_with_padding_gives_the_bias() -> None:
    valid = torch.tensor([True, True, False, True])
    x = torch.full((4, 1), 1e200, dtype=torch.float64, requires_grad=True)
    bias = torch.tensor([0.5], dtype=torch.float64)
    y = functional.batch_norm(x, None, None, None, bias, training=True, valid=valid).y
    assert y.flatten().tolist() == [0.5, 0.5, 0.0, 0.5]
    y.square().sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()


@every_norm
@every_place
def test_functional_gradient_of_a_row_of_zeros(norm: str, eps_place: str) -> None:
    call, _ = NORMS[norm]
    v = torch.randn(WIDTH, dtype=torch.float64)

    def loss(t: Tensor) -> Tensor:
        return (call(t, WIDTH, eps=1e-2, eps_place=eps_place) * v).sum()

    x = torch.zeros(WIDTH, dtype=torch.float64, requires_grad=True)
    (written,) = torch.autograd.grad(loss(x), x)
    assert written.isfinite().all()
    assert written.abs().max() > 1
    torch.testing.assert_close(torch.func.grad(loss)(x.detach()), written)


@pytest.mark.parametrize("padding", [1e200, float("inf"), float("-inf"), float("nan")])
def test_huge_padding_changes_nothing(padding: float) -> None:
    # Padded values must not decide whether a channel is scaled.
    valid = torch.tensor([True, True, False, True, True])
    real = torch.randn(5, 3, dtype=torch.float64)
    x = torch.where(valid[:, None], real, padding).requires_grad_()
    statistics = torch.zeros(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)
    out = functional.batch_norm(x, *statistics, training=True, valid=valid)
    want = functional.batch_norm(real[valid], *statistics, training=True)
    torch.testing.assert_close(out.y[valid], want.y, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(out.running_var, want.running_var, rtol=1e-12, atol=1e-12)
    out.y.square().sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()
    assert x.grad[~valid].abs().sum() == 0
