"""One file per op: its formula on tensors, its custom op, and the path that a call takes."""

from normkit.ops.batch_norm import (
    BatchNormFormula,
    BatchNormGivenFormula,
    batch_norm,
    batch_norm_given,
)
from normkit.ops.layer_norm import LayerNormFormula, layer_norm
from normkit.ops.path import PathRow, Situation, check_impl, describe_paths, situation
from normkit.ops.precision import compute_dtype
from normkit.ops.rms_norm import RMSNormFormula, rms_norm

__all__ = [
    "BatchNormFormula",
    "BatchNormGivenFormula",
    "LayerNormFormula",
    "PathRow",
    "RMSNormFormula",
    "Situation",
    "batch_norm",
    "batch_norm_given",
    "check_impl",
    "compute_dtype",
    "describe_paths",
    "layer_norm",
    "rms_norm",
    "situation",
]
