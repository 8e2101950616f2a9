"""DynamicErf in plain torch: the truth that every other path is compared with.

Source: Chen, Lu, Zhu, Sun, Liu 2025, arXiv:2512.10938.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from normkit.reference.gain import gained
from normkit.reference.squash import argument, squash_backward, total


def dynamic_erf(
    x_MN: Tensor,
    alpha_1: Tensor,
    shift_1: Tensor | None = None,
    weight_N: Tensor | None = None,
    bias_N: Tensor | None = None,
) -> Tensor:
    """``y = weight * erf(alpha * x + shift) + bias``; no element sees another.

    Computed in the dtype of x.
    """
    return gained(torch.erf(argument(x_MN, alpha_1, shift_1)), weight_N, bias_N, False)


def dynamic_erf_backward(
    dy_MN: Tensor,
    x_MN: Tensor,
    alpha_1: Tensor,
    shift_1: Tensor | None = None,
    weight_N: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients (dx_MN, dalpha_1, dshift_1, dweight_N, dbias_N).

    With ``z = alpha * x + shift`` and ``u = dy * weight * 2 / sqrt(pi) * exp(-z^2)``:
    ``dx = alpha * u``, ``dalpha = sum(x * u)`` and ``dshift = sum(u)`` over all elements,
    ``dweight = sum(dy * erf(z))`` and ``dbias = sum(dy)`` over rows.
    """
    z = argument(x_MN, alpha_1, shift_1)
    slope = 2 / math.sqrt(math.pi) * torch.exp(-z.square())
    u, dalpha, dweight, dbias = squash_backward(dy_MN, x_MN, weight_N, torch.erf(z), slope)
    return alpha_1 * u, dalpha, total(u), dweight, dbias
