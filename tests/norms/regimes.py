"""Inputs by regime: each shows a fault that well-scaled random numbers hide."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

Regime = Callable[[int, int, torch.dtype], Tensor]


def unit(m: int, n: int, dtype: torch.dtype) -> Tensor:
    """Mean 0, spread 1."""
    return torch.randn(m, n, dtype=torch.float64).to(dtype)


def offset(m: int, n: int, dtype: torch.dtype) -> Tensor:
    """Mean far above the spread, as far as the dtype can hold both."""
    mean = 1 / (64 * torch.finfo(dtype).eps)
    return (mean + torch.randn(m, n, dtype=torch.float64)).to(dtype)


def tiny(m: int, n: int, dtype: torch.dtype) -> Tensor:
    """Mean square near eps = 1e-5: where the place and value of eps show."""
    return (3e-3 * torch.randn(m, n, dtype=torch.float64)).to(dtype)


def huge(m: int, n: int, dtype: torch.dtype) -> Tensor:
    """Near the largest finite value: squares overflow the dtype."""
    largest = torch.finfo(dtype).max / 16
    return (largest * (2 * torch.rand(m, n, dtype=torch.float64) - 1)).to(dtype)


def constant(m: int, n: int, dtype: torch.dtype) -> Tensor:
    """Every element of a row equal."""
    rows = torch.tensor([0.0, 0.1, 14.0, 1000.1, -3.3], dtype=torch.float64)
    return rows[torch.arange(m) % 5].to(dtype)[:, None].expand(m, n).contiguous()


def one_hot(m: int, n: int, dtype: torch.dtype) -> Tensor:
    """One element 1, the rest 0."""
    return torch.nn.functional.one_hot(torch.arange(m) % n, n).to(dtype)


def outlier(m: int, n: int, dtype: torch.dtype) -> Tensor:
    """One element a thousand times the rest, first, last or inside."""
    x = torch.randn(m, n, dtype=torch.float64)
    x[torch.arange(m), torch.arange(m) * (n - 1) // max(m - 1, 1)] *= 1000
    return x.to(dtype)


def strided(m: int, n: int, dtype: torch.dtype) -> Tensor:
    """Every second column of a wider tensor."""
    return unit(m, 2 * n, dtype)[:, ::2]


def transposed(m: int, n: int, dtype: torch.dtype) -> Tensor:
    """Columns contiguous."""
    return unit(n, m, dtype).t()


def expanded(m: int, n: int, dtype: torch.dtype) -> Tensor:
    """One row in memory for all."""
    return unit(1, n, dtype).expand(m, n)


REGIMES: Mapping[str, Regime] = {
    f.__name__: f
    for f in (unit, offset, tiny, huge, constant, one_hot, outlier, strided, transposed, expanded)
}

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
