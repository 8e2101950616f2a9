"""Norms as modules, one family a file."""

from normkit.layers.batch_norm import BatchNorm1d, BatchNorm2d, BatchNorm3d, MaskedBatchNorm
from normkit.layers.layer_norm import LayerNorm
from normkit.layers.no_norm import NoNorm
from normkit.layers.rms_norm import RMSNorm

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "LayerNorm",
    "MaskedBatchNorm",
    "NoNorm",
    "RMSNorm",
]
