"""Norms as functions of tensors. Every input is checked here, once, with a sentence."""

from normkit.functional.adaptive_layer_norm import adaptive_layer_norm
from normkit.functional.adaptive_rms_norm import adaptive_rms_norm
from normkit.functional.add_layer_norm import add_layer_norm, dropout_add_layer_norm
from normkit.functional.add_rms_norm import add_rms_norm, dropout_add_rms_norm
from normkit.functional.batch_norm import BatchNormOutput, batch_norm
from normkit.functional.channel_layer_norm import channel_layer_norm
from normkit.functional.dynamic_erf import dynamic_erf
from normkit.functional.dynamic_tanh import dynamic_tanh
from normkit.functional.gated_rms_norm import gated_rms_norm
from normkit.functional.group_norm import group_norm
from normkit.functional.instance_norm import InstanceNormOutput, instance_norm
from normkit.functional.layer_norm import layer_norm
from normkit.functional.norm_linear import NormOptions, norm_linear
from normkit.functional.power_norm import PowerNormOutput, PowerPasses, power_norm
from normkit.functional.qk_norm import qk_norm, scale_for_length
from normkit.functional.residual import AddNormOutput
from normkit.functional.rms_norm import default_eps, rms_norm
from normkit.functional.scale_norm import scale_norm

__all__ = [
    "AddNormOutput",
    "BatchNormOutput",
    "InstanceNormOutput",
    "NormOptions",
    "PowerNormOutput",
    "PowerPasses",
    "adaptive_layer_norm",
    "adaptive_rms_norm",
    "add_layer_norm",
    "add_rms_norm",
    "batch_norm",
    "channel_layer_norm",
    "default_eps",
    "dropout_add_layer_norm",
    "dropout_add_rms_norm",
    "dynamic_erf",
    "dynamic_tanh",
    "gated_rms_norm",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "norm_linear",
    "power_norm",
    "qk_norm",
    "rms_norm",
    "scale_for_length",
    "scale_norm",
]
