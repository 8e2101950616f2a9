"""The formulas written a second time, in numpy's 80-bit floats, from the papers.

Nothing here is shared with the code under test, and the exponent range is wide enough that no
regime overflows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

Wide = np.longdouble


@dataclass(frozen=True, kw_only=True)
class Truth:
    """Results and what the bound needs, as float64 tensors of rows (M, N)."""

    y: Tensor
    dx: Tensor
    dweight: Tensor
    dbias: Tensor
    x_hat: Tensor
    g: Tensor
    inverse: Tensor
    weight_terms: Tensor
    bias_terms: Tensor


def wide(tensor: Tensor) -> Any:
    """The values of a tensor, exactly."""
    return tensor.detach().to(torch.float64).numpy().astype(Wide)


def narrow(array: Any) -> Tensor:
    """Back to float64; beyond its range infinite, as a true result that overflows is."""
    with np.errstate(over="ignore"):
        return torch.from_numpy(np.asarray(array, dtype=np.float64))


def row_truth(
    x: Tensor,
    dy: Tensor,
    gain: Tensor,
    bias: Tensor,
    *,
    center: bool,
    eps: float,
    eps_place: str = "inside",
    measured: Tensor | None = None,
    zero_unmeasured: bool = False,
) -> Truth:
    """Norm of each row, and its gradients for the incoming dy.

    Args:
        x, dy: (M, N).
        gain, bias: broadcastable to (M, N): (N,) for token norms, (M, 1) for batch statistics.
        measured: (N,) bool, which elements the statistics see.
        zero_unmeasured: the others give 0 and get no gradient (a masked norm).
    """
    seen = np.ones(x.shape[-1], bool) if measured is None else measured.numpy()
    n = max(int(seen.sum()), 1)
    X, DY, W, B = wide(x), wide(dy), wide(gain), wide(bias)
    if zero_unmeasured:
        X, DY = np.where(seen, X, 0), np.where(seen, DY, 0)
    if center:
        X = X - X[:, :1]  # exact, and 80 bits too lose digits of a mean far above the spread
        X = X - np.where(seen, X, 0).sum(-1, keepdims=True) / n
    s = np.sqrt((np.where(seen, X, 0) ** 2).sum(-1, keepdims=True) / n)
    e = Wide(eps)
    d = {"inside": np.sqrt(s**2 + e), "outside": s + e, "clamp": np.maximum(s, e)}[eps_place]
    # How much the divisor moves with s, times d / s: 1 inside; outside d / s; clamp 1 or 0.
    with np.errstate(divide="ignore", invalid="ignore"):
        outside = np.where(s == 0, 0, d / s)
    moves = {"inside": 1.0, "outside": outside, "clamp": (s >= e).astype(Wide)}[eps_place]
    x_hat = X / d
    g = DY * W
    pull = x_hat * moves * (g * x_hat).sum(-1, keepdims=True) / n
    if center:
        pull = pull + g.sum(-1, keepdims=True) / n
    y = x_hat * W + B
    if zero_unmeasured:
        y = np.where(seen, y, 0)
    return Truth(
        y=narrow(y),
        dx=narrow((g - np.where(seen, pull, 0)) / d),
        dweight=narrow((DY * x_hat).sum(0)),
        dbias=narrow(DY.sum(0)),
        x_hat=narrow(x_hat),
        g=narrow(g),
        inverse=narrow(1 / d),
        weight_terms=narrow(DY * x_hat),
        bias_terms=narrow(DY),
    )
