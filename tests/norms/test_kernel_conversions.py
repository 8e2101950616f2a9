"""Half types in the kernels: every value widened, every rounding, against torch's own.

With eps clamped at 1 and a fraction that measures zeros alone, RMSNorm divides by 1: what comes
out is what went in, times the gain.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from normkit import functional

HALVES = (torch.float16, torch.bfloat16)
every_half = pytest.mark.parametrize("dtype", HALVES, ids=str)
# Vectors alone; vectors and a tail.
every_tail = pytest.mark.parametrize("more", [0, 5])


def through(x: Tensor, weight: Tensor | None = None, output_dtype: str = "input") -> Tensor:
    """x * weight, by the kernel of rms_norm; weight has its length."""
    zeros, ones = torch.zeros(len(x), dtype=x.dtype), torch.ones(len(x))
    row = torch.cat([zeros, x])
    gain = None if weight is None else torch.cat([ones.to(weight.dtype), weight])
    y = functional.rms_norm(
        row,
        len(row),
        gain,
        1.0,
        eps_place="clamp",
        fraction=0.5,
        output_dtype=output_dtype,  # type: ignore[arg-type]
        impl="cpu",
    )
    return y[len(x) :]


def values(dtype: torch.dtype) -> Tensor:
    """All 65536 numbers of a half type."""
    return torch.arange(-(2**15), 2**15).to(torch.int16).view(dtype)


def hard_to_round(dtype: torch.dtype) -> Tensor:
    """Floats halfway between two neighbours of a half type, and next to that; and any bits."""
    all_of_it = values(dtype)
    finite = all_of_it[all_of_it.isfinite()].double().unique()
    halfway = ((finite[1:] + finite[:-1]) / 2).float()  # one bit more: exact
    edges = torch.tensor([torch.finfo(dtype).max]).float()
    anything = torch.randint(-(2**31), 2**31, (20000,)).to(torch.int32).view(torch.float32)
    up, down = (halfway.nextafter(torch.tensor(s * torch.inf)) for s in (1, -1))
    return torch.cat([halfway, up, down, anything, edges, 1.001 * edges, 1.01 * edges, -2 * edges])


def assert_same(got: Tensor, want: Tensor, *, signs: bool = True) -> None:
    """Equal, NaN with NaN, zeros with their sign unless something was added to them."""
    assert got.dtype == want.dtype
    torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)
    if signs:
        number = ~want.isnan()
        assert torch.equal(got.signbit()[number], want.signbit()[number])


@every_half
@every_tail
def test_every_value_is_widened_and_comes_back(dtype: torch.dtype, more: int) -> None:
    x = torch.cat([values(dtype), values(dtype)[:more]])
    ones = torch.ones(len(x))
    assert_same(through(x), x)
    assert_same(through(x, ones, "weight"), x.float())


@every_half
@every_tail
def test_rounding_is_to_the_nearest_even(dtype: torch.dtype, more: int) -> None:
    # 65520 and all above is infinite in float16; subnormals are rounded as others.
    wide = hard_to_round(dtype)
    wide = torch.cat([wide, wide[:more]])
    assert_same(through(torch.ones(len(wide), dtype=dtype), wide), wide.to(dtype))


@every_half
def test_rounding_of_one_number_at_a_time(dtype: torch.dtype) -> None:
    # Gradients of parameters: the sum over one row is dy itself, rounded from float64.
    dy = hard_to_round(dtype)[None]
    bias = torch.zeros(dy.shape[1], dtype=dtype, requires_grad=True)
    x = torch.ones_like(dy)
    y = functional.rms_norm(x, dy.shape[1], None, bias=bias, impl="cpu")
    y.backward(dy)
    assert bias.grad is not None
    assert_same(bias.grad, dy[0].to(dtype), signs=False)


@every_half
def test_widening_of_one_number_at_a_time(dtype: torch.dtype) -> None:
    # A half weight beside float64 rows.
    weight = values(dtype)
    got = through(torch.ones(len(weight), dtype=torch.float64), weight)
    assert_same(got, weight.double(), signs=False)
