"""Constants by depth, as the blocks use them; they stand with the specs, which name their rules."""

from normkit.spec.constants import (
    AlphaBeta,
    DeepNormConstants,
    StackConstants,
    SubLNConstants,
    deepnorm_constants,
    layer_scale_start,
    stack_constants,
    sub_ln_constants,
)

__all__ = [
    "AlphaBeta",
    "DeepNormConstants",
    "StackConstants",
    "SubLNConstants",
    "deepnorm_constants",
    "layer_scale_start",
    "stack_constants",
    "sub_ln_constants",
]
