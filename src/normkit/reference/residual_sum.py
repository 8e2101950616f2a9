"""The sum that stands before a norm in a residual stack, in plain torch."""

from __future__ import annotations

from torch import Tensor


def residual_sum(
    x: Tensor, residual: Tensor, *, alpha: float = 1.0, factor: Tensor | None = None
) -> Tensor:
    """``h = factor * x + alpha * residual``; the factor is that of dropout, None without."""
    return (x if factor is None else x * factor) + alpha * residual


def residual_sum_backward(
    dh: Tensor, *, alpha: float = 1.0, factor: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Gradients (dx, dresidual): ``factor * dh`` and ``alpha * dh``."""
    return dh if factor is None else dh * factor, dh if alpha == 1 else alpha * dh
