"""The error bound: its terms one by one, and that it holds and bites on torch's own ops."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from normkit.errors import OptionError
from normkit.measure import (
    Margin,
    assert_within,
    error_bound,
    gain_gradient_scale,
    growth,
    input_gradient_scale,
    margin,
    output_scale,
    sum_scale,
    ulp,
    unit_roundoff,
)

EPS = 1e-5


def truth(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def standardized(x64: Tensor) -> tuple[Tensor, Tensor]:
    centred = x64 - x64.mean(-1, keepdim=True)
    rstd = (centred.square().mean(-1, keepdim=True) + EPS).rsqrt()
    return centred * rstd, rstd


def test_growth_is_that_of_a_blocked_sum() -> None:
    assert [growth(n) for n in (0, 1, 2, 4096)] == [1.0, 1.0, 2.0, 13.0]


def test_bound_is_k_times_the_two_terms_and_nothing_else() -> None:
    ref64 = truth(0.0, 1.0, -300.0)
    scale = truth(0.5, 2.0, 8.0)
    bound = error_bound(
        ref64, dtype=torch.float16, compute_dtype=torch.float32, terms=8, row_scale=scale, k=3
    )
    wanted = 3 * (ulp(ref64, torch.float16) + unit_roundoff(torch.float32) * 4 * scale)
    assert torch.equal(bound, wanted)


@pytest.mark.parametrize("k", [0.0, -1.0, 4.5, math.nan])
def test_k_above_four_is_refused(k: float) -> None:
    with pytest.raises(OptionError) as caught:
        error_bound(
            truth(1.0),
            dtype=torch.float32,
            compute_dtype=torch.float32,
            terms=1,
            row_scale=1.0,
            k=k,
        )
    assert str(caught.value) == (
        f"error_bound: k must be above 0 and at most 4; k is {k}. "
        "An error that needs more is not rounding."
    )


def test_output_scale_takes_the_largest_of_each_row() -> None:
    x_hat = torch.tensor([[1.0, -3.0], [0.5, 0.0]], dtype=torch.float64)
    assert output_scale(x_hat).tolist() == [[3.0], [0.5]]
    gain, bias = truth(10.0, 1.0), truth(0.0, -0.25)
    assert output_scale(x_hat, gain, bias).tolist() == [[10.25], [5.25]]
    assert output_scale(x_hat, axes=(0, 1)).tolist() == [[3.0]]


def test_output_scale_follows_gain_and_bias_that_differ_by_row() -> None:
    x_hat = torch.ones(2, 3, dtype=torch.float64)
    per_row = truth(1.0, 2.0).reshape(2, 1)
    assert output_scale(x_hat, per_row, -per_row).tolist() == [[2.0], [4.0]]


def test_input_gradient_scale_adds_the_three_terms() -> None:
    g = torch.tensor([[1.0, -2.0]], dtype=torch.float64)
    x_hat = torch.tensor([[0.5, -0.5]], dtype=torch.float64)
    rstd = torch.tensor([[2.0]], dtype=torch.float64)
    without_mean = 2.0 * (2.0 + 0.5 * 0.75)
    assert input_gradient_scale(g, x_hat, rstd, center=False).tolist() == [[without_mean]]
    assert input_gradient_scale(g, x_hat, rstd).tolist() == [[without_mean + 2.0 * 1.5]]


def test_gain_gradient_scale_takes_the_largest_of_each_row() -> None:
    dy = torch.tensor([[1.0, -2.0], [0.0, 3.0]], dtype=torch.float64)
    x_hat = torch.tensor([[0.5, 0.0], [-4.0, 1.0]], dtype=torch.float64)
    assert gain_gradient_scale(dy, x_hat).tolist() == [0.5, 13.0]
    per_channel = gain_gradient_scale(dy, x_hat, axes=(-1,), summed=(1,))
    assert per_channel.tolist() == [1.5, 12.0]


def test_sum_scale_adds_absolute_values() -> None:
    terms = torch.tensor([[1.0, -1.0], [-2.0, 0.0]], dtype=torch.float64)
    assert sum_scale(terms, axes=(0,)).tolist() == [3.0, 1.0]


@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (0, 0)])
def test_scales_and_margin_of_nothing(shape: tuple[int, int]) -> None:
    nothing = torch.empty(shape, dtype=torch.float64)
    scale = output_scale(nothing, bias64=torch.zeros(shape[1], dtype=torch.float64))
    assert scale.shape == (shape[0], 1)
    found = assert_within(
        nothing.float(), nothing, compute_dtype=torch.float32, terms=shape[1], row_scale=scale
    )
    assert (found.ratio, found.index, found.within, found.bites) == (0.0, (), True, False)


def layer_norm_margin(width: int, dtype: torch.dtype) -> Margin:
    x = torch.randn(32, width).to(dtype)
    x_hat, _ = standardized(x.double())
    weight, bias = torch.rand(width).to(dtype) + 0.5, torch.randn(width).to(dtype)
    return assert_within(
        F.layer_norm(x, (width,), weight, bias, EPS),
        x_hat * weight.double() + bias.double(),
        compute_dtype=torch.float64 if dtype == torch.float64 else torch.float32,
        terms=width,
        row_scale=output_scale(x_hat, weight.double(), bias.double()),
    )


@pytest.mark.parametrize("width", [1, 7, 64, 1000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_an_honest_layer_norm_keeps_the_bound(width: int, dtype: torch.dtype) -> None:
    assert layer_norm_margin(width, dtype).within


@pytest.mark.parametrize(
    ("width", "dtype"), [(7, torch.float32), (64, torch.float16), (1000, torch.bfloat16)]
)
def test_the_bound_bites(width: int, dtype: torch.dtype) -> None:
    assert layer_norm_margin(width, dtype).bites


def gradient_margins(width: int) -> tuple[Margin, Margin]:
    """Margins of dx and dweight of torch's own LayerNorm."""
    x = torch.randn(32, width, requires_grad=True)
    weight = (torch.rand(width) + 0.5).requires_grad_()
    dy = torch.randn(32, width)
    dx, dweight = torch.autograd.grad(F.layer_norm(x, (width,), weight, None, EPS), (x, weight), dy)
    x_hat, rstd = standardized(x.detach().double())
    g = dy.double() * weight.detach().double()
    pull = g.mean(-1, keepdim=True) + x_hat * (g * x_hat).mean(-1, keepdim=True)
    scale = input_gradient_scale(g, x_hat, rstd)
    float32 = torch.float32
    return (
        assert_within(dx, rstd * (g - pull), compute_dtype=float32, terms=width, row_scale=scale),
        assert_within(
            dweight,
            (dy.double() * x_hat).sum(0),
            compute_dtype=float32,
            terms=32 * width,
            row_scale=gain_gradient_scale(dy.double(), x_hat),
        ),
    )


# Not at width 1, where torch's dweight is a residue of rounding though x_hat is exactly 0.
@pytest.mark.parametrize("width", [7, 64, 1000])
def test_honest_gradients_keep_the_bound(width: int) -> None:
    assert all(found.within for found in gradient_margins(width))


def test_the_bound_bites_on_gradients() -> None:
    assert gradient_margins(7)[0].bites


def test_a_dropped_column_breaks_the_bound() -> None:
    x = torch.randn(8, 64)
    x_hat, _ = standardized(x.double())
    wrong = F.layer_norm(x[:, :-1], (63,), eps=EPS)
    with pytest.raises(AssertionError, match=r"^y: error is \S+ times the bound at index"):
        assert_within(
            wrong,
            x_hat[:, :-1],
            compute_dtype=torch.float32,
            terms=64,
            row_scale=output_scale(x_hat),
        )


def test_margin_says_where_and_by_how_much() -> None:
    ref64 = torch.zeros(2, 3, dtype=torch.float64)
    y = torch.zeros(2, 3)
    y[1, 2] = 0.5
    y[0, 1] = -0.25
    found = margin(y, ref64, torch.full((2, 1), 0.25, dtype=torch.float64))
    assert (found.ratio, found.index, found.ref, found.got, found.bound) == (
        2.0,
        (1, 2),
        0.0,
        0.5,
        0.25,
    )
    assert not found.within
    assert str(found) == (
        "error is 2 times the bound at index (1, 2): truth 0, got 0.5 (torch.float32), bound 0.25"
    )


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_margin_of_a_result_that_is_not_finite_is_inf(bad: float) -> None:
    y = torch.tensor([0.0, bad])
    found = margin(y, truth(0.0, 1.0), truth(1.0, 1.0))
    assert (found.ratio, found.index, found.within) == (math.inf, (1,), False)


def test_a_bound_that_is_nan_counts_as_broken() -> None:
    found = margin(torch.zeros(2), truth(0.0, 0.0), truth(1.0, math.nan))
    assert (found.ratio, found.index, found.within) == (math.inf, (1,), False)


def test_bites_means_more_than_a_twentieth() -> None:
    for error, bites in ((0.05, False), (0.0625, True)):
        assert margin(truth(error), truth(0.0), truth(1.0)).bites is bites


def test_margin_of_a_scalar() -> None:
    found = margin(torch.tensor(1.5), torch.tensor(1.0).double(), torch.tensor(1.0).double())
    assert (found.ratio, found.index) == (0.5, ())
