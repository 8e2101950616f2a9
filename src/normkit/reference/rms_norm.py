"""RMSNorm in plain torch: the truth that every other path is compared with.

Source: Zhang and Sennrich 2019, arXiv:1910.07467.
"""

from __future__ import annotations

import torch
from torch import Tensor

from normkit.reference.gain import factor, gained, rounded
from normkit.reference.standardize import column_sum, standardize, standardize_backward
from normkit.spec.norm import EpsPlace


def rms_norm(
    x_MN: Tensor,
    weight_N: Tensor | None = None,
    bias_N: Tensor | None = None,
    *,
    eps: float | Tensor,
    eps_place: EpsPlace = "inside",
    zero_centred: bool = False,
    measured: int | None = None,
    round_to: torch.dtype | None = None,
) -> Tensor:
    """``y = x / sqrt(mean(x^2) + eps) * gain + bias`` over the last axis.

    Computed in the dtype of x. ``measured`` is the number of leading features that the mean sees
    (pRMSNorm); ``round_to`` rounds x_hat to a narrower dtype before the gain, as Llama does.
    """
    first = _first(x_MN, measured)
    x_hat = standardize(x_MN, center=False, eps=eps, eps_place=eps_place, measured_N=first)
    return gained(rounded(x_hat, round_to), weight_N, bias_N, zero_centred)


def rms_norm_backward(
    dy_MN: Tensor,
    x_MN: Tensor,
    weight_N: Tensor | None = None,
    *,
    eps: float | Tensor,
    eps_place: EpsPlace = "inside",
    zero_centred: bool = False,
    measured: int | None = None,
    round_to: torch.dtype | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients (dx_MN, dweight_N, dbias_N); g is dy times the gain.

    ``dx = (g - x_hat * mean(g * x_hat)) / sqrt(mean(x^2) + eps)``, ``dweight = sum(dy * x_hat)``
    and ``dbias = sum(dy)`` over rows. The rounding of x_hat passes gradients through unchanged.
    """
    gain = factor(weight_N, zero_centred=zero_centred)
    g = dy_MN if gain is None else dy_MN * gain
    first = _first(x_MN, measured)
    dx, x_hat = standardize_backward(
        g, x_MN, center=False, eps=eps, eps_place=eps_place, measured_N=first
    )
    return dx, column_sum(dy_MN * rounded(x_hat, round_to)), column_sum(dy_MN)


def _first(x_MN: Tensor, measured: int | None) -> Tensor | None:
    """Which features are measured; None for all."""
    if measured is None:
        return None
    return torch.arange(x_MN.shape[-1], device=x_MN.device) < measured
