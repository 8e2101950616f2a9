"""The implementations that a test of the norms runs on."""

from __future__ import annotations

import torch
from torch import Tensor

from normkit.kernels.cpu.finding import switched_off

# Bugs planted in torch operations are looked for with NORMKIT_CPU=off: there is nothing else then.
IMPLS = ("torch",) if switched_off() else ("torch", "cpu")


def compute_dtype(impl: str, x: Tensor) -> torch.dtype:
    """What an implementation computes in: torch operations in float64, kernels as x needs."""
    return torch.float64 if impl == "torch" else torch.promote_types(x.dtype, torch.float32)
