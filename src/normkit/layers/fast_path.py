"""Norms that torch's Transformer encoder must call, because it would compute something else."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from torch import nn


class _NeverEmpty(OrderedDict[int, Any]):
    """Hooks whose length is at least 1, though there may be none: bool() tells the truth."""

    def __len__(self) -> int:
        return max(1, super().__len__())

    def __bool__(self) -> bool:
        return super().__len__() > 0


def keep_called(norm: nn.Module) -> None:
    """Keep ``nn.TransformerEncoderLayer`` from computing torch's LayerNorm in place of this norm.

    In evaluation without gradients that layer reads weight, bias and eps of its norms and runs one
    fused kernel that never calls them, unless a module inside has forward hooks, which it counts
    with ``len``. So the norm's empty dictionary of hooks says that it has one. No hook is there or
    called; the kernel stays off for this encoder layer alone, in copies and pickles too.
    """
    norm._forward_hooks = _NeverEmpty(norm._forward_hooks)
