"""ScaleNorm in plain torch: the truth that every other path is compared with.

Source: Nguyen and Salazar 2019, arXiv:1910.05895.
"""

from __future__ import annotations

import math

from torch import Tensor

from normkit.reference.standardize import column_sum, row_sum, standardize, standardize_backward
from normkit.spec.norm import EpsPlace


def scale_norm(
    x_MN: Tensor,
    weight_1: Tensor | None = None,
    *,
    eps: float | Tensor,
    eps_place: EpsPlace = "clamp",
    zero_centred: bool = False,
) -> Tensor:
    """``y = gain * x / max(|x|, eps)``, |x| the Euclidean length of the row.

    Computed in the dtype of x. The gain is the weight, 1 where there is none, or
    ``sqrt(N) * (1 + weight)`` where ``zero_centred``. The length is sqrt(N) times the root mean
    square, so this is an RMSNorm whose eps and gain are scaled by N.
    """
    width = max(x_MN.shape[-1], 1)
    eps = eps_of_rms(eps, width, eps_place)
    x_hat = standardize(x_MN, center=False, eps=eps, eps_place=eps_place)
    return x_hat * gain_of_rms(weight_1, width, zero_centred)


def scale_norm_backward(
    dy_MN: Tensor,
    x_MN: Tensor,
    weight_1: Tensor | None = None,
    *,
    eps: float | Tensor,
    eps_place: EpsPlace = "clamp",
    zero_centred: bool = False,
) -> tuple[Tensor, Tensor]:
    """Gradients (dx_MN, dweight_1).

    ``dx = gain (dy - u * sum(dy * u)) / |x|`` with u = x / |x|, and ``gain dy / eps`` for rows
    that the clamp holds; ``dweight`` sums ``dy * u`` over all elements.
    """
    width = max(x_MN.shape[-1], 1)
    eps = eps_of_rms(eps, width, eps_place)
    g = dy_MN * gain_of_rms(weight_1, width, zero_centred)
    dx, x_hat = standardize_backward(g, x_MN, center=False, eps=eps, eps_place=eps_place)
    dgain = row_sum(column_sum(dy_MN * x_hat))
    return dx, dgain if zero_centred else dgain / math.sqrt(width)


def eps_of_rms(eps: float | Tensor, width: int, eps_place: EpsPlace) -> float | Tensor:
    """The eps beside the root mean square that is this one beside the length."""
    return eps / width if eps_place == "inside" else eps / math.sqrt(width)


def gain_of_rms(weight_1: Tensor | None, width: int, zero_centred: bool) -> Tensor | float:
    """What a row of root mean square 1 is multiplied by."""
    if weight_1 is None:
        return 1 / math.sqrt(width)
    return 1 + weight_1 if zero_centred else weight_1 / math.sqrt(width)
