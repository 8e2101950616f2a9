"""Every formula in plain torch, in any dtype: the truth, and the path for functional transforms."""

from normkit.reference.batch_norm import (
    batch_norm,
    batch_norm_backward,
    batch_norm_given,
    batch_norm_given_backward,
)
from normkit.reference.layer_norm import layer_norm, layer_norm_backward
from normkit.reference.rms_norm import rms_norm, rms_norm_backward

__all__ = [
    "batch_norm",
    "batch_norm_backward",
    "batch_norm_given",
    "batch_norm_given_backward",
    "layer_norm",
    "layer_norm_backward",
    "rms_norm",
    "rms_norm_backward",
]
