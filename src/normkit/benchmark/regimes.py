"""Inputs on which norms go wrong, each for a reason of its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from normkit.benchmark.entry import BenchOp, Shape

Draw = Callable[[Shape, torch.dtype, torch.Generator], Tensor]


def unit(shape: Shape, dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    """Mean 0, spread 1."""
    return torch.randn(shape, dtype=torch.float64, generator=generator)


def offset(shape: Shape, dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    """Mean far above the spread, as far as the dtype can hold both."""
    return 1 / (64 * torch.finfo(dtype).eps) + unit(shape, dtype, generator)


def tiny(shape: Shape, dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    """Mean square near eps."""
    return 2e-3 * unit(shape, dtype, generator)


def huge(shape: Shape, dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    """Near the largest finite value, so that squares overflow."""
    drawn = torch.rand(shape, dtype=torch.float64, generator=generator)
    return torch.finfo(dtype).max / 16 * (2 * drawn - 1)


def constant(shape: Shape, dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    """Every element the same, at a value that no float holds exactly."""
    return torch.full(shape, 1000.1, dtype=torch.float64)


def one_hot(shape: Shape, dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    """One element 1, the rest 0."""
    x = torch.zeros(shape, dtype=torch.float64)
    x.view(-1, shape[-1])[:, shape[-1] // 3] = 1
    return x


def outlier(shape: Shape, dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    """One element a thousand times the rest."""
    x = unit(shape, dtype, generator)
    x.view(-1, shape[-1])[:, shape[-1] // 3] *= 1000
    return x


REGIMES: Mapping[str, Draw] = {
    "unit": unit,
    "offset": offset,
    "tiny": tiny,
    "huge": huge,
    "constant": constant,
    "one-hot": one_hot,
    "outlier": outlier,
}
LONG_ROW, MANY_ROWS = "long row", "many rows"
LONG, MANY = 65536, (8192, 64)


def small_shape(shape: Shape) -> Shape:
    """A shape of the same axes with about 64 rows of the same width, for measuring errors.

    Example:
        >>> small_shape((4096, 1024)), small_shape((8, 96, 56, 56)), small_shape((4, 1024, 1024))
        ((64, 1024), (2, 96, 8, 8), (2, 32, 1024))
    """
    if len(shape) == 4:
        return (min(shape[0], 2), shape[1], min(shape[2], 8), min(shape[3], 8))
    if len(shape) == 3:
        return (min(shape[0], 2), min(shape[1], 32), shape[2])
    return (*(min(size, 64) for size in shape[:-1]), shape[-1])


def cases(op: BenchOp, shape: Shape) -> list[tuple[str, Shape, Draw]]:
    """Every regime at a small shape; for tokens also one long row, and many short ones.

    Many rows find sums over rows that stop growing in a short dtype. A long row is left out where
    the op has a matrix of its width.
    """
    found = [(name, small_shape(shape), draw) for name, draw in REGIMES.items()]
    if len(shape) == 2:
        long = (1, max(LONG, shape[1]))
        found.append((MANY_ROWS, MANY, unit))
        if max(map(math.prod, op.sizes(long).values())) == math.prod(long):
            found.append((LONG_ROW, long, unit))
    return found
