"""The step of a running statistic."""

from __future__ import annotations

import torch
from torch import Tensor


def moved(
    old: Tensor | None, new: Tensor, momentum: float | Tensor, defined: Tensor
) -> Tensor | None:
    """``(1 - momentum) * old + momentum * new``; as it was where the batch defines none.

    Computed in the dtype of ``new``, returned in that of ``old``.
    """
    if old is None:
        return None
    wide = old.to(new.dtype)
    after = (1 - momentum) * wide + momentum * new.detach()
    return torch.where(defined, after, wide).to(old.dtype)


def unbiased(var: Tensor, n: Tensor) -> Tensor:
    """The variance with 1/(n - 1) from that with 1/n; as it is for n = 1, which defines none."""
    wide_n = n.to(var.dtype)
    return var * (wide_n / (wide_n - 1).clamp(min=1))
