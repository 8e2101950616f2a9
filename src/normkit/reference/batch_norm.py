"""BatchNorm in plain torch, over real positions only where a mask says which they are.

Channels are rows here: x_CR has one row per channel and R positions (batch and space together).
Source: Ioffe and Szegedy 2015, arXiv:1502.03167.
"""

from __future__ import annotations

import torch
from torch import Tensor

from normkit.reference.standardize import (
    centred,
    mean_square,
    row_sum,
    standardize_backward,
)


def batch_norm(
    x_CR: Tensor,
    weight_C: Tensor | None = None,
    bias_C: Tensor | None = None,
    *,
    eps: float | Tensor = 1e-5,
    valid_R: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """``y = (x - mean) / sqrt(var + eps) * weight + bias``, statistics of the batch, var with 1/n.

    Returns (y_CR, mean_C, var_C, n). The n valid positions alone are in the statistics; others
    give 0. Without any, mean and variance are 0.
    """
    around, mean = centred(_real(x_CR, valid_R), valid_R)
    var = mean_square(around, valid_R)
    y = _real(_affine(around / (var + eps).sqrt(), weight_C, bias_C), valid_R)
    n = torch.tensor(x_CR.shape[-1], device=x_CR.device) if valid_R is None else valid_R.sum()
    return y, mean.squeeze(-1), var.squeeze(-1), n


def batch_norm_backward(
    dy_CR: Tensor,
    x_CR: Tensor,
    weight_C: Tensor | None = None,
    *,
    eps: float | Tensor = 1e-5,
    valid_R: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients (dx_CR, dweight_C, dbias_C): LayerNorm's formula along a channel.

    Positions that are not valid give and get no gradient.
    """
    dy_CR, x_CR = _real(dy_CR, valid_R), _real(x_CR, valid_R)
    g = dy_CR if weight_C is None else dy_CR * weight_C[:, None]
    dx, x_hat = standardize_backward(g, x_CR, center=True, eps=eps, measured_N=valid_R)
    return dx, row_sum(dy_CR * x_hat).squeeze(-1), row_sum(dy_CR).squeeze(-1)


def batch_norm_given(
    x_CR: Tensor,
    mean_C: Tensor,
    var_C: Tensor,
    weight_C: Tensor | None = None,
    bias_C: Tensor | None = None,
    *,
    eps: float | Tensor = 1e-5,
    valid_R: Tensor | None = None,
) -> Tensor:
    """``y = (x - mean) / sqrt(var + eps) * weight + bias`` with statistics that are given."""
    x_hat = _standardized(x_CR, mean_C, var_C, eps, valid_R)
    return _real(_affine(x_hat, weight_C, bias_C), valid_R)


def batch_norm_given_backward(
    dy_CR: Tensor,
    x_CR: Tensor,
    mean_C: Tensor,
    var_C: Tensor,
    weight_C: Tensor | None = None,
    *,
    eps: float | Tensor = 1e-5,
    valid_R: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients (dx_CR, dweight_C, dbias_C) for statistics that do not depend on x."""
    dy_CR = _real(dy_CR, valid_R)
    x_hat = _standardized(x_CR, mean_C, var_C, eps, valid_R)
    g = dy_CR if weight_C is None else dy_CR * weight_C[:, None]
    dx = g / (var_C[:, None] + eps).sqrt()
    return dx, row_sum(dy_CR * x_hat).squeeze(-1), row_sum(dy_CR).squeeze(-1)


def _standardized(
    x_CR: Tensor, mean_C: Tensor, var_C: Tensor, eps: float | Tensor, valid_R: Tensor | None
) -> Tensor:
    return (_real(x_CR, valid_R) - mean_C[:, None]) / (var_C[:, None] + eps).sqrt()


def _affine(x_hat: Tensor, weight_C: Tensor | None, bias_C: Tensor | None) -> Tensor:
    y = x_hat if weight_C is None else x_hat * weight_C[:, None]
    return y if bias_C is None else y + bias_C[:, None]


def _real(x_CR: Tensor, valid_R: Tensor | None) -> Tensor:
    """0 where a position is not real, whatever stood there (NaN too)."""
    return x_CR if valid_R is None else torch.where(valid_R, x_CR, 0)
