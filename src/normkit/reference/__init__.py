"""Every formula in plain torch, in any dtype: the truth, and the path for functional transforms."""

from normkit.reference.adaptive_layer_norm import (
    adaptive_layer_norm,
    adaptive_layer_norm_backward,
)
from normkit.reference.adaptive_rms_norm import (
    adaptive_rms_norm,
    adaptive_rms_norm_backward,
)
from normkit.reference.batch_norm import (
    batch_norm,
    batch_norm_backward,
    batch_norm_given,
    batch_norm_given_backward,
)
from normkit.reference.channel_layer_norm import (
    channel_layer_norm,
    channel_layer_norm_backward,
)
from normkit.reference.dynamic_erf import dynamic_erf, dynamic_erf_backward
from normkit.reference.dynamic_tanh import dynamic_tanh, dynamic_tanh_backward
from normkit.reference.gated_rms_norm import (
    Gating,
    activated,
    gated_rms_norm,
    gated_rms_norm_backward,
)
from normkit.reference.group_norm import group_norm, group_norm_backward
from normkit.reference.layer_norm import layer_norm, layer_norm_backward
from normkit.reference.norm_linear import norm_linear, norm_linear_backward
from normkit.reference.philox import dropout_factor, philox_4x32, random_words
from normkit.reference.power_norm import (
    power_divisor,
    power_norm,
    power_norm_backward,
    power_product,
    power_square,
)
from normkit.reference.residual_sum import residual_sum, residual_sum_backward
from normkit.reference.rms_norm import rms_norm, rms_norm_backward
from normkit.reference.scale_norm import scale_norm, scale_norm_backward

__all__ = [
    "Gating",
    "activated",
    "adaptive_layer_norm",
    "adaptive_layer_norm_backward",
    "adaptive_rms_norm",
    "adaptive_rms_norm_backward",
    "batch_norm",
    "batch_norm_backward",
    "batch_norm_given",
    "batch_norm_given_backward",
    "channel_layer_norm",
    "channel_layer_norm_backward",
    "dropout_factor",
    "dynamic_erf",
    "dynamic_erf_backward",
    "dynamic_tanh",
    "dynamic_tanh_backward",
    "gated_rms_norm",
    "gated_rms_norm_backward",
    "group_norm",
    "group_norm_backward",
    "layer_norm",
    "layer_norm_backward",
    "norm_linear",
    "norm_linear_backward",
    "philox_4x32",
    "power_divisor",
    "power_norm",
    "power_norm_backward",
    "power_product",
    "power_square",
    "random_words",
    "residual_sum",
    "residual_sum_backward",
    "rms_norm",
    "rms_norm_backward",
    "scale_norm",
    "scale_norm_backward",
]
