"""PowerNorm in plain torch: each channel over a running root mean square, with its own backward.

Channels are rows here: x_CR has one row per channel and R positions. Positions that are not real
hold 0 in x_CR and dy_CR; n counts the real ones, at least 1.
Source: Shen et al. 2020, arXiv:2003.07845 (algorithm 2; PN-V is the variant with batch statistics).
"""

from __future__ import annotations

import torch
from torch import Tensor

from normkit.reference.standardize import row_sum


def power_square(x_CR: Tensor, n: Tensor) -> Tensor:
    """Mean of x^2 over the real positions of a channel, (C, 1)."""
    return row_sum(x_CR.square()) / n


def power_divisor(
    x_CR: Tensor, given_C1: Tensor, *, n: Tensor, own: Tensor, eps: float | Tensor
) -> Tensor:
    """psi_C1: ``sqrt(mean(x^2) + eps)`` of this batch where ``own``, else the given one."""
    return torch.where(own, (power_square(x_CR, n) + eps).sqrt(), given_C1)


def power_norm(
    x_CR: Tensor, psi_C1: Tensor, weight_C: Tensor | None = None, bias_C: Tensor | None = None
) -> Tensor:
    """``y = x / psi * weight + bias``."""
    x_hat = x_CR / psi_C1
    y = x_hat if weight_C is None else x_hat * weight_C[:, None]
    return y if bias_C is None else y + bias_C[:, None]


def power_norm_backward(
    dy_CR: Tensor,
    x_CR: Tensor,
    psi_C1: Tensor,
    weight_C: Tensor | None = None,
    *,
    product_C1: Tensor,
    n: Tensor,
    own: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """(dx_CR, dweight_C, dbias_C, Gamma_C, Lambda_C); g is dy times the weight.

    ``dx = (g - x_hat * nu) / psi`` with the running product nu, or, where ``own``, with this
    batch's Lambda in its place, which is the exact derivative. ``Lambda = mean(g * x_hat)`` and
    ``Gamma = mean(x_hat^2)`` move nu: see :func:`power_product`.
    """
    g = dy_CR if weight_C is None else dy_CR * weight_C[:, None]
    x_hat = x_CR / psi_C1
    product = row_sum(g * x_hat) / n
    pull = torch.where(own, product, product_C1)
    gamma = power_square(x_hat, n)
    dweight, dbias = row_sum(dy_CR * x_hat), row_sum(dy_CR)
    dx = (g - x_hat * pull) / psi_C1
    return dx, dweight.squeeze(-1), dbias.squeeze(-1), gamma.squeeze(-1), product.squeeze(-1)


def power_product(old_C: Tensor, gamma_C: Tensor, lambda_C: Tensor, momentum: float) -> Tensor:
    """``nu <- nu * (1 - momentum * Gamma) + momentum * Lambda``."""
    return old_C * (1 - momentum * gamma_C) + momentum * lambda_C
