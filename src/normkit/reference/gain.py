"""Gain and bias, in the two conventions that people use."""

from __future__ import annotations

import torch
from torch import Tensor


def factor(weight: Tensor | None, *, zero_centred: bool) -> Tensor | None:
    """What x_hat is multiplied by: w, or 1 + w for a zero-centred gain."""
    return 1 + weight if zero_centred and weight is not None else weight


def gained(x_hat: Tensor, weight: Tensor | None, bias: Tensor | None, zero_centred: bool) -> Tensor:
    """``x_hat * gain + bias``, each left out where it is None."""
    gain = factor(weight, zero_centred=zero_centred)
    y = x_hat if gain is None else x_hat * gain
    return y if bias is None else y + bias


def rounded(value: Tensor, round_to: torch.dtype | None) -> Tensor:
    """The value that a narrower dtype holds, in the dtype that it came in; None changes nothing."""
    return value if round_to is None else value.to(round_to).to(value.dtype)
