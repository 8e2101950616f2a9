"""Small readable models: a Transformer that takes any norm at any placement."""

from normkit.blocks.attention import CrossAttention, Memory, SelfAttention, readable
from normkit.blocks.block import Block
from normkit.blocks.config import TransformerConfig
from normkit.blocks.constants import (
    AlphaBeta,
    DeepNormConstants,
    StackConstants,
    SubLNConstants,
    deepnorm_constants,
    layer_scale_start,
    stack_constants,
    sub_ln_constants,
)
from normkit.blocks.encoder_decoder import EncoderDecoder
from normkit.blocks.ffn import FeedForward
from normkit.blocks.init import (
    RoleGains,
    init_by_role_,
    init_linear_,
    role_gains,
    scale_last_gains_,
    zero_branches_,
)
from normkit.blocks.norm import TokenNorm, check_token_norm, has_gain, make_norm, token_norms
from normkit.blocks.placement import Residual, check_placement
from normkit.blocks.positions import (
    LearnedPositions,
    SinusoidalPositions,
    make_positions,
    position_numbers,
    sinusoidal_table,
)
from normkit.blocks.streams import Stream, TwoStreams, enter, leave
from normkit.blocks.transformer import CausalLM, Encoder, Transformer

__all__ = [
    "AlphaBeta",
    "Block",
    "CausalLM",
    "CrossAttention",
    "DeepNormConstants",
    "Encoder",
    "EncoderDecoder",
    "FeedForward",
    "LearnedPositions",
    "Memory",
    "Residual",
    "RoleGains",
    "SelfAttention",
    "SinusoidalPositions",
    "StackConstants",
    "Stream",
    "SubLNConstants",
    "TokenNorm",
    "Transformer",
    "TransformerConfig",
    "TwoStreams",
    "check_placement",
    "check_token_norm",
    "deepnorm_constants",
    "enter",
    "has_gain",
    "init_by_role_",
    "init_linear_",
    "layer_scale_start",
    "leave",
    "make_norm",
    "make_positions",
    "position_numbers",
    "readable",
    "role_gains",
    "scale_last_gains_",
    "sinusoidal_table",
    "stack_constants",
    "sub_ln_constants",
    "token_norms",
    "zero_branches_",
]
