"""The one computation behind every norm here: divide a row by its spread, around its mean.

Rows stand on the last axis (N); everything before it is rows (M). Sums run in a fixed order, so a
row's bits depend neither on the other rows nor on the number of threads.
"""

from __future__ import annotations

import torch
from torch import Tensor

from normkit.spec.norm import EpsPlace

_CHUNK_N = 4096  # short enough that torch never splits one such sum between threads
_BLOCK_ELEMENTS = 32768


def row_sum(t_MN: Tensor) -> Tensor:
    """Sum over the last axis, kept as an axis of 1, in an order that the width alone decides."""
    width = t_MN.shape[-1]
    if width <= _CHUNK_N:
        return t_MN.sum(-1, keepdim=True)
    full = width - width % _CHUNK_N
    chunks = t_MN[..., :full].reshape(*t_MN.shape[:-1], full // _CHUNK_N, _CHUNK_N)
    total = chunks.sum(-1).sum(-1, keepdim=True)
    return total if full == width else total + t_MN[..., full:].sum(-1, keepdim=True)


def column_sum(t_MN: Tensor) -> Tensor:
    """Sum over rows: fixed blocks of rows (by the width alone), the blocks' sums in a tree.

    Rows of zeros appended at the end change no bit of the result.
    """
    rows, width = t_MN.shape
    block = max(1, _BLOCK_ELEMENTS // width)
    padded = torch.nn.functional.pad(t_MN, (0, 0, 0, -rows % block))
    partials = padded.reshape(-1, block, width).sum(1)
    while len(partials) > 1:
        even = torch.nn.functional.pad(partials, (0, 0, 0, len(partials) % 2))
        partials = even[0::2] + even[1::2]
    return partials.sum(0)  # of one, or of none


def root(square: Tensor) -> Tensor:
    """Square root whose derivative at 0 is 0, not infinite: constant rows keep finite gradients."""
    zero = square == 0
    return torch.where(zero, 0, torch.where(zero, 1, square).sqrt())


def divisor(square: Tensor, eps: float | Tensor, eps_place: EpsPlace) -> Tensor:
    """``sqrt(square + eps)``, ``sqrt(square) + eps`` or ``max(sqrt(square), eps)``."""
    if eps_place == "inside":
        return (square + eps).sqrt()
    if eps_place == "outside":
        return root(square) + eps
    return torch.maximum(root(square), torch.as_tensor(eps, dtype=square.dtype).to(square.device))


def standardize(
    x_MN: Tensor,
    *,
    center: bool,
    eps: float | Tensor,
    eps_place: EpsPlace = "inside",
    measured_N: Tensor | None = None,
) -> Tensor:
    """``(x - mean) / divisor``, with mean = 0 unless ``center``.

    Args:
        x_MN: rows, in the dtype to compute in.
        center: subtract the mean of the row.
        eps: a number, or one per row as (M, 1).
        eps_place: see :func:`divisor`.
        measured_N: bool, (N,) or (M, N); the elements that the statistics see (None: all).

    Returns:
        x_hat_MN, also at elements that were not measured.
    """
    x_MN, divisor_M1 = _around_mean(x_MN, center, eps, eps_place, measured_N)
    return x_MN / divisor_M1


def standardize_backward(
    g_MN: Tensor,
    x_MN: Tensor,
    *,
    center: bool,
    eps: float | Tensor,
    eps_place: EpsPlace = "inside",
    measured_N: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Gradient of :func:`standardize`: ``dx = (g - mean(g) - x_hat * mean(g * x_hat) * k) / d``.

    d is the divisor. k is how much d moves with the statistic s: 1 with eps inside, ``d / s``
    outside, and for clamp 1 above eps and 0 below. Only measured elements feel the two means.
    Written in differentiable operations: differentiating it again gives every higher order.

    Returns:
        (dx_MN, x_hat_MN).
    """
    x_MN, divisor_M1 = _around_mean(x_MN, center, eps, eps_place, measured_N)
    x_hat = x_MN / divisor_M1
    count = _count(x_MN, measured_N)
    pull = x_hat * (row_sum(g_MN * x_hat) / count)
    if eps_place != "inside":
        s = root(mean_square(x_MN, measured_N))
        at_zero = s == 0
        k = torch.where(at_zero, 0, divisor_M1 / torch.where(at_zero, 1, s))
        pull = pull * (k if eps_place == "outside" else (s >= eps).to(k.dtype))
    if center:
        pull = pull + row_sum(g_MN) / count
    if measured_N is not None:
        pull = torch.where(measured_N, pull, 0)
    return (g_MN - pull) / divisor_M1, x_hat


def _around_mean(
    x_MN: Tensor,
    center: bool,
    eps: float | Tensor,
    eps_place: EpsPlace,
    measured_N: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """(x - mean or x, divisor)."""
    if center:
        x_MN, _ = centred(x_MN, measured_N)
    return x_MN, divisor(mean_square(x_MN, measured_N), eps, eps_place)


def centred(x_MN: Tensor, measured_N: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """(x - mean, mean_M1).

    The mean is rounded, which far from 0 costs more digits than the spread has. What that leaves
    is small and close to exact, so taking the mean again and subtracting it repairs this, and
    constant rows come out as exactly 0.
    """
    count = _count(x_MN, measured_N)
    mean = row_sum(_only(x_MN, measured_N)) / count
    around = x_MN - mean
    rest = row_sum(_only(around, measured_N)) / count
    return around - rest, mean + rest


def mean_square(x_MN: Tensor, measured_N: Tensor | None = None) -> Tensor:
    """Mean of x^2 over the measured elements, as (M, 1)."""
    return row_sum(_only(x_MN, measured_N).square()) / _count(x_MN, measured_N)


def _only(x_MN: Tensor, measured_N: Tensor | None) -> Tensor:
    return x_MN if measured_N is None else torch.where(measured_N, x_MN, 0)


def _count(x_MN: Tensor, measured_N: Tensor | None) -> int | Tensor:
    """How many elements a row's statistics see, at least 1 so that none is 0 / 0."""
    if measured_N is None:
        return max(x_MN.shape[-1], 1)
    return measured_N.sum(-1, keepdim=True).clamp(min=1)
