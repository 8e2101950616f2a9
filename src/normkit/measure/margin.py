"""Where a result stands against its bound: the numbers that a failing test prints."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from normkit.measure.bound import LARGEST_K, error_bound
from normkit.measure.ulp import absolute_error

BITE = 1 / 20


@dataclass(frozen=True, kw_only=True)
class Margin:
    """Where a result comes closest to its bound, or breaks it.

    Attributes:
        ratio: the largest error divided by its bound; 0 for no elements.
        index: where that is.
        ref, got, bound: the truth, the result and the bound there.
        dtype: of the result.

    Example:
        >>> truth = torch.tensor([1.0, 2.0], dtype=torch.float64)
        >>> print(margin(torch.tensor([1.0, 2.5]), truth, torch.full_like(truth, 0.25)))
        error is 2 times the bound at index (1,): truth 2, got 2.5 (torch.float32), bound 0.25
    """

    ratio: float
    index: tuple[int, ...]
    ref: float
    got: float
    bound: float
    dtype: torch.dtype

    @property
    def within(self) -> bool:
        """Whether every element keeps its bound."""
        return self.ratio <= 1

    @property
    def bites(self) -> bool:
        """Whether the bound is tight enough here to mean something, an error over 1/20 of it."""
        return self.ratio > BITE

    def __str__(self) -> str:
        """Say how far, where and with which numbers."""
        return (
            f"error is {self.ratio:.4g} times the bound at index {self.index}: "
            f"truth {self.ref:.17g}, got {self.got:.9g} ({self.dtype}), bound {self.bound:.4g}"
        )


def margin(y: Tensor, ref64: Tensor, bound: Tensor) -> Margin:
    """Find the element of ``y`` that is worst against ``bound``, see :func:`error_bound`.

    Raises:
        DtypeError: ``ref64`` is not float64, or ``y`` is not floating.
        ShapeError: ``y`` and ``ref64`` differ in shape.
    """
    y, ref64 = y.detach(), ref64.detach()
    ratios = absolute_error(y, ref64) / bound
    if ratios.numel() == 0:
        return Margin(ratio=0.0, index=(), ref=0.0, got=0.0, bound=0.0, dtype=y.dtype)
    # A bound that is NaN proves nothing, so it counts as broken.
    worst = int(ratios.nan_to_num(nan=torch.inf, posinf=torch.inf).argmax())
    index = tuple(int(i) for i in torch.unravel_index(torch.tensor(worst), ratios.shape))
    ratio = float(ratios[index])
    return Margin(
        ratio=math.inf if math.isnan(ratio) else ratio,
        index=index,
        ref=float(ref64[index]),
        got=float(y[index]),
        bound=float(bound.expand(ratios.shape)[index]),
        dtype=y.dtype,
    )


def assert_within(
    y: Tensor,
    ref64: Tensor,
    *,
    compute_dtype: torch.dtype,
    terms: int,
    row_scale: Tensor | float,
    what: str = "y",
    k: float = LARGEST_K,
) -> Margin:
    """Hold ``y`` to :func:`error_bound` and return the margin that is left.

    Args:
        what: name of the result, which opens the sentence of a failure.

    Raises:
        AssertionError: an element breaks the bound; the text says which, and by how much.
    """
    bound = error_bound(
        ref64,
        dtype=y.dtype,
        compute_dtype=compute_dtype,
        terms=terms,
        row_scale=row_scale,
        k=k,
    )
    found = margin(y, ref64, bound)
    if not found.within:
        raise AssertionError(f"{what}: {found}")
    return found
