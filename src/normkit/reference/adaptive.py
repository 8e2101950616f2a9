"""What the adaptive norms share: a norm without a gain, then a scale and a shift that are given.

Source: Peebles and Xie 2022 (DiT), arXiv:2212.09748.
"""

from __future__ import annotations

from torch import Tensor

from normkit.reference.gain import gained
from normkit.reference.standardize import standardize, standardize_backward


def modulated(
    x_MN: Tensor,
    scale_MN: Tensor,
    shift_MN: Tensor | None = None,
    *,
    center: bool,
    eps: float | Tensor,
) -> Tensor:
    """``y = x_hat * (1 + scale) + shift`` over the last axis, in the dtype of x."""
    x_hat = standardize(x_MN, center=center, eps=eps)
    return gained(x_hat, scale_MN, shift_MN, zero_centred=True)


def modulated_backward(
    dy_MN: Tensor, x_MN: Tensor, scale_MN: Tensor, *, center: bool, eps: float | Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients (dx_MN, dscale_MN, dshift_MN).

    dx is that of the norm for ``g = dy * (1 + scale)``; ``dscale = dy * x_hat`` and
    ``dshift = dy``, which a scale or shift of several rows sums over them.
    """
    dx, x_hat = standardize_backward(dy_MN * (1 + scale_MN), x_MN, center=center, eps=eps)
    return dx, dy_MN * x_hat, dy_MN
