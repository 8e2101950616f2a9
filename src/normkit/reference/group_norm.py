"""GroupNorm in plain torch, over real positions only where a mask says which they are.

A row here is one group of one sample: x_MKR has M rows, K channels in each, and R positions.
InstanceNorm is the case K = 1.
Source: Wu and He 2018, arXiv:1803.08494.
"""

from __future__ import annotations

import torch
from torch import Tensor

from normkit.reference.gain import gained
from normkit.reference.standardize import centred, mean_square, row_sum, standardize_backward


def group_norm(
    x_MKR: Tensor,
    weight_MK: Tensor | None = None,
    bias_MK: Tensor | None = None,
    *,
    eps: float | Tensor = 1e-5,
    valid_MR: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """``y = (x - mean) / sqrt(var + eps) * weight + bias``, statistics of a row, var with 1/n.

    Returns (y_MKR, mean_M, var_M). The n valid elements alone are in the statistics; others give
    0. Without any, mean and variance are 0.
    """
    valid, valid_MN = _by_channel(valid_MR, x_MKR)
    around, mean = centred(_real(x_MKR, valid).flatten(1), valid_MN)
    var = mean_square(around, valid_MN)
    x_hat = (around / (var + eps).sqrt()).reshape(x_MKR.shape)
    y = gained(x_hat, _each(weight_MK), _each(bias_MK), zero_centred=False)
    return _real(y, valid), mean.squeeze(-1), var.squeeze(-1)


def group_norm_backward(
    dy_MKR: Tensor,
    x_MKR: Tensor,
    weight_MK: Tensor | None = None,
    *,
    eps: float | Tensor = 1e-5,
    valid_MR: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients (dx_MKR, dweight_MK, dbias_MK): LayerNorm's formula along a row.

    Positions that are not valid give and get no gradient.
    """
    valid, valid_MN = _by_channel(valid_MR, x_MKR)
    dy, x = _real(dy_MKR, valid), _real(x_MKR, valid)
    g = gained(dy, _each(weight_MK), None, zero_centred=False)
    dx, x_hat = standardize_backward(
        g.flatten(1), x.flatten(1), center=True, eps=eps, measured_N=valid_MN
    )
    dx, x_hat = _real(dx.reshape(x.shape), valid), _real(x_hat.reshape(x.shape), valid)
    return dx, row_sum(dy * x_hat).squeeze(-1), row_sum(dy).squeeze(-1)


def _by_channel(valid_MR: Tensor | None, x_MKR: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """The mask for each channel: (M, K, R), and flat, (M, N)."""
    if valid_MR is None:
        return None, None
    valid = valid_MR[:, None].expand(x_MKR.shape)
    return valid, valid.flatten(1)


def _each(per_channel: Tensor | None) -> Tensor | None:
    return None if per_channel is None else per_channel[..., None]


def _real(t: Tensor, valid: Tensor | None) -> Tensor:
    """0 where a position is not real, whatever stood there (NaN too)."""
    return t if valid is None else torch.where(valid, t, 0)
