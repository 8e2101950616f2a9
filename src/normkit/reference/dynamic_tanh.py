"""DynamicTanh in plain torch: the truth that every other path is compared with.

Source: Zhu, Chen, He, LeCun, Liu 2025, arXiv:2503.10622.
"""

from __future__ import annotations

import torch
from torch import Tensor

from normkit.reference.gain import gained
from normkit.reference.squash import argument, squash_backward


def dynamic_tanh(
    x_MN: Tensor, alpha_1: Tensor, weight_N: Tensor | None = None, bias_N: Tensor | None = None
) -> Tensor:
    """``y = weight * tanh(alpha * x) + bias``; no element sees another.

    Computed in the dtype of x.
    """
    return gained(torch.tanh(argument(x_MN, alpha_1)), weight_N, bias_N, False)


def dynamic_tanh_backward(
    dy_MN: Tensor, x_MN: Tensor, alpha_1: Tensor, weight_N: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients (dx_MN, dalpha_1, dweight_N, dbias_N).

    With ``u = dy * weight * (1 - tanh(alpha * x)^2)``: ``dx = alpha * u``, ``dalpha = sum(x * u)``
    over all elements, ``dweight = sum(dy * tanh(alpha * x))`` and ``dbias = sum(dy)`` over rows.
    """
    z = argument(x_MN, alpha_1)
    u, dalpha, dweight, dbias = squash_backward(dy_MN, x_MN, weight_N, torch.tanh(z), _slope(z))
    return alpha_1 * u, dalpha, dweight, dbias


def _slope(z: Tensor) -> Tensor:
    """``1 - tanh(z)^2`` without the subtraction, which leaves no digit where tanh is close to 1.

    An even function, so either branch is the whole of it: all derivatives are right at 0 too,
    where that of the absolute value is not.
    """
    e = torch.exp(2 * torch.where(z < 0, z, -z))
    return 4 * e / (1 + e).square()
