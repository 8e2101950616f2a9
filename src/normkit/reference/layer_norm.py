"""LayerNorm in plain torch: the truth that every other path is compared with.

Source: Ba, Kiros, Hinton 2016, arXiv:1607.06450.
"""

from __future__ import annotations

from torch import Tensor

from normkit.reference.gain import factor, gained
from normkit.reference.standardize import column_sum, standardize, standardize_backward
from normkit.spec.norm import EpsPlace


def layer_norm(
    x_MN: Tensor,
    weight_N: Tensor | None = None,
    bias_N: Tensor | None = None,
    *,
    eps: float | Tensor = 1e-5,
    eps_place: EpsPlace = "inside",
    zero_centred: bool = False,
) -> Tensor:
    """``y = (x - mean) / sqrt(var + eps) * gain + bias`` over the last axis, var with 1/N.

    Computed in the dtype of x; ``zero_centred`` makes the gain 1 + weight.
    """
    x_hat = standardize(x_MN, center=True, eps=eps, eps_place=eps_place)
    return gained(x_hat, weight_N, bias_N, zero_centred)


def layer_norm_backward(
    dy_MN: Tensor,
    x_MN: Tensor,
    weight_N: Tensor | None = None,
    *,
    eps: float | Tensor = 1e-5,
    eps_place: EpsPlace = "inside",
    zero_centred: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients (dx_MN, dweight_N, dbias_N); g is dy times the gain.

    ``dx = (g - mean(g) - x_hat * mean(g * x_hat)) / sqrt(var + eps)``,
    ``dweight = sum(dy * x_hat)`` and ``dbias = sum(dy)`` over rows.
    """
    gain = factor(weight_N, zero_centred=zero_centred)
    g = dy_MN if gain is None else dy_MN * gain
    dx, x_hat = standardize_backward(g, x_MN, center=True, eps=eps, eps_place=eps_place)
    return dx, column_sum(dy_MN * x_hat), column_sum(dy_MN)
