"""Initial weights by the role that a matrix plays."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from normkit.blocks.attention import Attention, CrossAttention, SelfAttention
from normkit.blocks.constants import StackConstants
from normkit.blocks.ffn import FeedForward
from normkit.blocks.placement import Residual
from normkit.blocks.positions import LearnedPositions
from normkit.errors import ShapeError, sentence
from normkit.spec import InitGain

# Tokens start at the scale that a norm gives, E||x||^2 = D: the bound on the growth of a pre-norm
# stream starts from it (Xiong et al. 2020, lemma 2), and the first branch is measured against it.
TOKEN_STD = 1.0

# Learned positions start as a nudge: at the scale of the tokens they would be noise that hides
# which token stands there, and a 48-layer model would learn nothing else in its first 200 steps.
POSITION_STD = 0.02


@dataclass(frozen=True, kw_only=True)
class RoleGains:
    """Factors on Xavier's standard deviation, by role; ``cross_`` means in cross attention."""

    ffn: float = 1.0
    value: float = 1.0
    output: float = 1.0
    query_key: float = 1.0
    cross_value: float = 1.0
    cross_output: float = 1.0


def role_gains(init: InitGain, constants: StackConstants) -> RoleGains:
    """Turn the rules of a placement into numbers.

    Rule ``deepnorm`` stands for beta, in cross attention too; rule ``sub_ln`` for gamma, and for 1
    in cross attention. torchscale, by the authors of both, goes by the names of parameters
    instead: it scales biases too, gives query, key and value a gain of 1/sqrt(2) on top, and
    leaves the feed-forward at torch's own start.

    Example:
        >>> constants = StackConstants(alpha=2.0, beta=0.5, gamma=1.5)
        >>> role_gains(InitGain(ffn="deepnorm"), constants)  # doctest: +NORMALIZE_WHITESPACE
        RoleGains(ffn=0.5, value=1.0, output=1.0, query_key=1.0,
                  cross_value=1.0, cross_output=1.0)
    """
    here = {"one": 1.0, "deepnorm": constants.beta, "sub_ln": constants.gamma}
    cross = {**here, "sub_ln": 1.0}
    return RoleGains(
        ffn=here[init.ffn],
        value=here[init.value],
        output=here[init.output],
        query_key=here[init.query_key],
        cross_value=cross[init.value],
        cross_output=cross[init.output],
    )


def init_linear_(linear: nn.Linear, *gains: float) -> None:
    """Fill a projection: weights Xavier normal, biases 0.

    Several gains mean several matrices of equal height fused into one, top to bottom: each is
    drawn from its own shape, ``std = gain * sqrt(2 / (fan_in + fan_out))``, so a fused query, key
    and value matrix starts like three separate ones.

    Args:
        linear: the projection, changed in place.
        gains: one for each fused matrix; none is one gain of 1.

    Raises:
        ShapeError: the output features do not divide into that many matrices.

    Example:
        >>> qkv = nn.Linear(8, 24)
        >>> init_linear_(qkv, 1.0, 1.0, 0.0)  # a value slice of gain 0
        >>> qkv.weight[:16].abs().min() > 0, qkv.weight[16:].abs().max() == 0
        (tensor(True), tensor(True))
    """
    gains = gains or (1.0,)
    if linear.out_features % len(gains):
        rule = f"{len(gains)} gains need output features that divide by {len(gains)}"
        raise ShapeError(
            sentence("init_linear_", rule, f"there are {linear.out_features} output features")
        )
    for matrix, gain in zip(linear.weight.chunk(len(gains)), gains, strict=True):
        nn.init.xavier_normal_(matrix, gain=gain)
    if linear.bias is not None:
        nn.init.zeros_(linear.bias)


@torch.no_grad()
def init_by_role_(model: nn.Module, gains: RoleGains) -> None:
    """Fill every attention, feed-forward and embedding inside ``model``; norms stay as they are.

    ================================  ====================================================
    matrix                            start
    ================================  ====================================================
    query, key                        Xavier normal times ``query_key``
    value (its slice of ``qkv``)      Xavier normal times ``value``
    attention output                  Xavier normal times ``output``
    query, key of cross attention     Xavier normal times ``query_key``
    value, output of the same         Xavier normal times ``cross_value``, ``cross_output``
    both of the feed-forward          Xavier normal times ``ffn``
    tokens                            normal with standard deviation ``TOKEN_STD``
    learned positions                 normal with standard deviation ``POSITION_STD``
    biases of all these               0
    ================================  ====================================================

    Example:
        >>> ffn = FeedForward(64, 64)
        >>> init_by_role_(ffn, RoleGains(ffn=0.5))
        >>> round(ffn.first.weight.std().item() * 64**0.5, 1)
        0.5
    """
    for module in model.modules():
        if isinstance(module, SelfAttention):
            init_linear_(module.qkv, gains.query_key, gains.query_key, gains.value)
            init_linear_(module.output, gains.output)
        elif isinstance(module, CrossAttention):
            init_linear_(module.query, gains.query_key)
            init_linear_(module.key_value, gains.query_key, gains.cross_value)
            init_linear_(module.output, gains.cross_output)
        elif isinstance(module, FeedForward):
            init_linear_(module.first, gains.ffn)
            init_linear_(module.second, gains.ffn)
        elif isinstance(module, LearnedPositions):
            nn.init.normal_(module.weight, std=POSITION_STD)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=TOKEN_STD)


@torch.no_grad()
def zero_branches_(model: nn.Module) -> None:
    """Set the last matrix of every branch inside ``model`` to 0: a branch then adds its bias, 0.

    Example:
        >>> ffn = FeedForward(4, 8)
        >>> zero_branches_(ffn)
        >>> ffn(torch.ones(1, 1, 4)).abs().max() == ffn.second.bias.abs().max()
        tensor(True)
    """
    for module in model.modules():
        if isinstance(module, Attention):
            nn.init.zeros_(module.output.weight)
        elif isinstance(module, FeedForward):
            nn.init.zeros_(module.second.weight)


@torch.no_grad()
def scale_last_gains_(model: nn.Module, factor: float) -> None:
    """Multiply the gain of the norm that ends a branch, for every branch inside ``model``.

    A zero-centred norm stores its gain less 1, so there 1 + w is what is multiplied.

    Example:
        >>> from normkit.spec import PlacementSpec
        >>> ends = Residual(PlacementSpec(norm_out=("ffn",)), "ffn", norm="rms_norm", width=2)
        >>> scale_last_gains_(ends, 0.1)
        >>> ends.norm_out.norm.weight.tolist()
        [0.10000000149011612, 0.10000000149011612]
    """
    for module in model.modules():
        if isinstance(module, Residual) and module.norm_out is not None:
            norm = module.norm_out.norm
            shift = 1.0 if getattr(norm, "zero_centred", False) else 0.0
            weight = norm.get_parameter("weight")
            weight.copy_(factor * (weight + shift) - shift)
