"""Small readable models: a Transformer that takes any norm at any placement."""

from normkit.blocks.attention import SelfAttention, readable
from normkit.blocks.config import TransformerConfig
from normkit.blocks.constants import AlphaBeta, DeepNormConstants, deepnorm_constants
from normkit.blocks.ffn import FeedForward
from normkit.blocks.init import RoleGains, init_by_role_, init_linear_, role_gains
from normkit.blocks.norm import TokenNorm, make_norm
from normkit.blocks.placement import Residual, check_placement
from normkit.blocks.positions import (
    LearnedPositions,
    SinusoidalPositions,
    make_positions,
    position_numbers,
    sinusoidal_table,
)
from normkit.blocks.transformer import Block, CausalLM, Encoder, Transformer

__all__ = [
    "AlphaBeta",
    "Block",
    "CausalLM",
    "DeepNormConstants",
    "Encoder",
    "FeedForward",
    "LearnedPositions",
    "Residual",
    "RoleGains",
    "SelfAttention",
    "SinusoidalPositions",
    "TokenNorm",
    "Transformer",
    "TransformerConfig",
    "check_placement",
    "deepnorm_constants",
    "init_by_role_",
    "init_linear_",
    "make_norm",
    "make_positions",
    "position_numbers",
    "readable",
    "role_gains",
    "sinusoidal_table",
]
