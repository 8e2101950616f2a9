"""One file per op: its formula on tensors, its custom op, and the path that a call takes."""

from normkit.ops.adaptive_layer_norm import AdaptiveLayerNormFormula, adaptive_layer_norm
from normkit.ops.adaptive_rms_norm import AdaptiveRMSNormFormula, adaptive_rms_norm
from normkit.ops.add_layer_norm import AddLayerNormFormula, add_layer_norm
from normkit.ops.add_norm import AddNormFormula, in_place
from normkit.ops.add_rms_norm import AddRMSNormFormula, add_rms_norm
from normkit.ops.batch_norm import (
    BatchNormFormula,
    BatchNormGivenFormula,
    batch_norm,
    batch_norm_given,
)
from normkit.ops.channel_layer_norm import ChannelLayerNormFormula, channel_layer_norm
from normkit.ops.describe import PathRow, describe_paths
from normkit.ops.dropout_add_layer_norm import DropoutAddLayerNormFormula, dropout_add_layer_norm
from normkit.ops.dropout_add_rms_norm import DropoutAddRMSNormFormula, dropout_add_rms_norm
from normkit.ops.dynamic_erf import DynamicErfFormula, dynamic_erf
from normkit.ops.dynamic_tanh import DynamicTanhFormula, dynamic_tanh
from normkit.ops.gated_rms_norm import GatedRMSNormFormula, gated_rms_norm
from normkit.ops.group_norm import GroupNormFormula, group_norm
from normkit.ops.layer_norm import LayerNormFormula, layer_norm
from normkit.ops.norm_linear import NormLinearFormula, norm_linear
from normkit.ops.path import Situation, check_impl, situation
from normkit.ops.power_norm import (
    PowerNormFormula,
    PowerNormGivenFormula,
    power_norm,
    power_norm_given,
)
from normkit.ops.power_passes import PowerPasses
from normkit.ops.precision import compute_dtype
from normkit.ops.rms_norm import RMSNormFormula, rms_norm
from normkit.ops.scale_norm import ScaleNormFormula, scale_norm

__all__ = [
    "AdaptiveLayerNormFormula",
    "AdaptiveRMSNormFormula",
    "AddLayerNormFormula",
    "AddNormFormula",
    "AddRMSNormFormula",
    "BatchNormFormula",
    "BatchNormGivenFormula",
    "ChannelLayerNormFormula",
    "DropoutAddLayerNormFormula",
    "DropoutAddRMSNormFormula",
    "DynamicErfFormula",
    "DynamicTanhFormula",
    "GatedRMSNormFormula",
    "GroupNormFormula",
    "LayerNormFormula",
    "NormLinearFormula",
    "PathRow",
    "PowerNormFormula",
    "PowerNormGivenFormula",
    "PowerPasses",
    "RMSNormFormula",
    "ScaleNormFormula",
    "Situation",
    "adaptive_layer_norm",
    "adaptive_rms_norm",
    "add_layer_norm",
    "add_rms_norm",
    "batch_norm",
    "batch_norm_given",
    "channel_layer_norm",
    "check_impl",
    "compute_dtype",
    "describe_paths",
    "dropout_add_layer_norm",
    "dropout_add_rms_norm",
    "dynamic_erf",
    "dynamic_tanh",
    "gated_rms_norm",
    "group_norm",
    "in_place",
    "layer_norm",
    "norm_linear",
    "power_norm",
    "power_norm_given",
    "rms_norm",
    "scale_norm",
    "situation",
]
