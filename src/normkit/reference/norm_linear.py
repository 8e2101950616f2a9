"""Linear layers behind one norm, in plain torch: they share what the norm returns."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

Linear = tuple[Tensor, Tensor | None]


def norm_linear(y: Tensor, linears: Sequence[Linear]) -> list[Tensor]:
    """``out = y W^T + b`` of each (weight_KN, bias_K), y being what the norm returns."""
    return [torch.nn.functional.linear(y, weight, bias) for weight, bias in linears]


def norm_linear_backward(
    dout_MK: Tensor, y_MN: Tensor | None, weight_KN: Tensor | None, *, bias: bool
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Gradients (dy_MN, dweight_KN, dbias_K) of one linear layer.

    ``dy = dout W``, ``dweight = dout^T y``, ``dbias = sum(dout)`` over rows. What is not asked for
    comes back as None: dweight without y, dy without the weight, dbias without ``bias``.
    """
    dy_MN = None if weight_KN is None else dout_MK @ weight_KN
    dweight_KN = None if y_MN is None else dout_MK.t() @ y_MN
    return dy_MN, dweight_KN, dout_MK.sum(0) if bias else None
