"""Norms as functions of tensors. Every input is checked here, once, with a sentence."""

from normkit.functional.batch_norm import BatchNormOutput, batch_norm
from normkit.functional.layer_norm import layer_norm
from normkit.functional.rms_norm import default_eps, rms_norm

__all__ = [
    "BatchNormOutput",
    "batch_norm",
    "default_eps",
    "layer_norm",
    "rms_norm",
]
