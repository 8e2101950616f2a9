"""BatchNorm in plain torch, over real positions only where a mask says which they are.

Channels are rows here: x_CR has one row per channel and R positions (batch and space together).
Source: Ioffe and Szegedy 2015, arXiv:1502.03167.
"""

from __future__ import annotations

import torch
from torch import Tensor

from normkit.reference.standardize import row_sum, standardize_backward


def batch_norm(
    x_CR: Tensor,
    weight_C: Tensor | None = None,
    bias_C: Tensor | None = None,
    *,
    eps: float = 1e-5,
    valid_R: Tensor | None = None,
) -> Tensor:
    """``y = (x - mean) / sqrt(var + eps) * weight + bias``, statistics of the batch, var with 1/R.

    Positions that are not valid are left out of the statistics and give 0.
    """
    mean, var, _ = batch_statistics(x_CR, valid_R)
    return batch_norm_given(x_CR, mean, var, weight_C, bias_C, eps=eps, valid_R=valid_R)


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
    y = _standardized(x_CR, mean_C, var_C, eps, valid_R)
    y = y if weight_C is None else y * weight_C[:, None]
    return _real(y if bias_C is None else y + bias_C[:, None], valid_R)


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


def batch_statistics(x_CR: Tensor, valid_R: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """(mean_C, var_C with 1/n, n) over the valid positions; zeros where there are none."""
    x_CR = _real(x_CR, valid_R)
    n = torch.tensor(x_CR.shape[-1], device=x_CR.device) if valid_R is None else valid_R.sum()
    mean = row_sum(x_CR) / n.clamp(min=1)
    var = row_sum(_real(x_CR - mean, valid_R).square()) / n.clamp(min=1)
    return mean.squeeze(-1), var.squeeze(-1), n


def _standardized(
    x_CR: Tensor, mean_C: Tensor, var_C: Tensor, eps: float | Tensor, valid_R: Tensor | None
) -> Tensor:
    return (_real(x_CR, valid_R) - mean_C[:, None]) / (var_C[:, None] + eps).sqrt()


def _real(x_CR: Tensor, valid_R: Tensor | None) -> Tensor:
    """0 where a position is not real, whatever stood there (NaN too)."""
    return x_CR if valid_R is None else torch.where(valid_R, x_CR, 0)
