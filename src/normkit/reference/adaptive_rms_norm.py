"""Adaptive RMSNorm in plain torch: RMSNorm whose gain and bias are given for each row.

Source: Peebles and Xie 2022 (DiT), arXiv:2212.09748, with an RMSNorm inside.
"""

from __future__ import annotations

from torch import Tensor

from normkit.reference.adaptive import modulated, modulated_backward


def adaptive_rms_norm(
    x_MN: Tensor, scale_MN: Tensor, shift_MN: Tensor | None = None, *, eps: float | Tensor = 1e-6
) -> Tensor:
    """``y = x / sqrt(mean(x^2) + eps) * (1 + scale) + shift`` over the last axis."""
    return modulated(x_MN, scale_MN, shift_MN, center=False, eps=eps)


def adaptive_rms_norm_backward(
    dy_MN: Tensor, x_MN: Tensor, scale_MN: Tensor, *, eps: float | Tensor = 1e-6
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients (dx_MN, dscale_MN, dshift_MN), see :func:`modulated_backward`."""
    return modulated_backward(dy_MN, x_MN, scale_MN, center=False, eps=eps)
