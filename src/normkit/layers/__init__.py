"""Norms as modules, one family a file."""

from normkit.layers.adaptive import AdaptiveLayerNorm, AdaptiveRMSNorm
from normkit.layers.batch_norm import BatchNorm1d, BatchNorm2d, BatchNorm3d, MaskedBatchNorm
from normkit.layers.channel_layer_norm import ChannelLayerNorm
from normkit.layers.dynamic import DynamicErf, DynamicTanh
from normkit.layers.gated_rms_norm import GatedRMSNorm
from normkit.layers.group_norm import GroupNorm
from normkit.layers.instance_norm import InstanceNorm1d, InstanceNorm2d, InstanceNorm3d
from normkit.layers.layer_norm import LayerNorm
from normkit.layers.no_norm import NoNorm
from normkit.layers.norm_linear import NormLinear
from normkit.layers.power_norm import PowerNorm
from normkit.layers.qk_norm import QKNorm
from normkit.layers.recurrent import LayerNormGRU, LayerNormLSTM
from normkit.layers.recurrent_cells import LayerNormGRUCell, LayerNormLSTMCell
from normkit.layers.rms_norm import RMSNorm
from normkit.layers.scale_norm import ScaleNorm
from normkit.layers.setup import Gain, NameReport, convert_names, torch_momentum
from normkit.layers.valid import valid

__all__ = [
    "AdaptiveLayerNorm",
    "AdaptiveRMSNorm",
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "ChannelLayerNorm",
    "DynamicErf",
    "DynamicTanh",
    "Gain",
    "GatedRMSNorm",
    "GroupNorm",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LayerNorm",
    "LayerNormGRU",
    "LayerNormGRUCell",
    "LayerNormLSTM",
    "LayerNormLSTMCell",
    "MaskedBatchNorm",
    "NameReport",
    "NoNorm",
    "NormLinear",
    "PowerNorm",
    "QKNorm",
    "RMSNorm",
    "ScaleNorm",
    "convert_names",
    "torch_momentum",
    "valid",
]
