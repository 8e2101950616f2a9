"""Layers over 4 features by name, with an input for each: what the reports are tested on."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import normkit

FEATURES = 4
SHAPES = {
    "LayerNorm": (3, FEATURES),
    "RMSNorm": (3, FEATURES),
    "BatchNorm1d": (3, FEATURES),
    "BatchNorm2d": (3, FEATURES, 2, 2),
    "BatchNorm3d": (3, FEATURES, 2, 2, 2),
    "MaskedBatchNorm": (3, 5, FEATURES),
    "NoNorm": (3, FEATURES),
}
BATCHES = ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "MaskedBatchNorm")
NORMS = tuple(name for name in SHAPES if name != "NoNorm")
every_layer = pytest.mark.parametrize("name", SHAPES)
every_norm = pytest.mark.parametrize("name", NORMS)
every_batch_norm = pytest.mark.parametrize("name", BATCHES)
token_norm = pytest.mark.parametrize("name", ["LayerNorm", "RMSNorm"])


def make(name: str, **options: Any) -> Any:
    """A layer over 4 features."""
    return getattr(normkit, name)(FEATURES, **options)


def sample(name: str, dtype: torch.dtype = torch.float32) -> Tensor:
    """A random input for it."""
    return torch.randn(SHAPES[name]).to(dtype)
