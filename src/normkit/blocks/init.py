"""Initial weights by the role that a matrix plays."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from normkit.blocks.attention import SelfAttention
from normkit.blocks.ffn import FeedForward
from normkit.blocks.positions import LearnedPositions
from normkit.errors import ShapeError, sentence
from normkit.spec import InitGain
from normkit.spec.placement import InitRule

# Tokens start at the scale that a norm gives, E||x||^2 = D: the bound on the growth of a pre-norm
# stream starts from it (Xiong et al. 2020, lemma 2), and the first branch is measured against it.
TOKEN_STD = 1.0

# Learned positions start as a nudge: at the scale of the tokens they would be noise that hides
# which token stands there, and a 48-layer model would learn nothing else in its first 200 steps.
POSITION_STD = 0.02


@dataclass(frozen=True, kw_only=True)
class RoleGains:
    """Factors on Xavier's standard deviation, by role."""

    ffn: float = 1.0
    value: float = 1.0
    output: float = 1.0
    query_key: float = 1.0


def role_gains(init: InitGain, *, beta: float) -> RoleGains:
    """Turn the rules of a placement into numbers; rule ``deepnorm`` stands for ``beta``.

    Example:
        >>> role_gains(InitGain(ffn="deepnorm"), beta=0.5)
        RoleGains(ffn=0.5, value=1.0, output=1.0, query_key=1.0)
    """

    def gain(rule: InitRule) -> float:
        return beta if rule == "deepnorm" else 1.0

    return RoleGains(
        ffn=gain(init.ffn),
        value=gain(init.value),
        output=gain(init.output),
        query_key=gain(init.query_key),
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
        elif isinstance(module, FeedForward):
            init_linear_(module.first, gains.ffn)
            init_linear_(module.second, gains.ffn)
        elif isinstance(module, LearnedPositions):
            nn.init.normal_(module.weight, std=POSITION_STD)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=TOKEN_STD)
