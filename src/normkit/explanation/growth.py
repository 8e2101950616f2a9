"""What is known about a placement at initialisation: how the stream grows, what gradients meet.

The stream starts at a mean square of 1 per feature, matrices are Xavier's, the FFN is four times
as wide as the stream, and norms start with a gain of 1.
"""

from __future__ import annotations

from collections.abc import Mapping

from normkit.explanation.numbers import short
from normkit.spec import PlacementSpec
from normkit.spec.placement import Branch

LAYER_BRANCHES: tuple[Branch, ...] = ("attention", "ffn")
# After a norm inside, the last matrix sees a mean square of 1, and Xavier's variance
# 2 / (fan_in + fan_out) makes of it 2 fan_in / (fan_in + fan_out): 1 for the output of attention,
# 1.6 for the second matrix of a four times wider FFN.
_AFTER_INSIDE: Mapping[Branch, float] = {"attention": 1.0, "cross_attention": 1.0, "ffn": 1.6}


def stream(spec: PlacementSpec, depth: int, *, scale: float, gain: float) -> str:
    """Say how the mean square of the residual stream grows with depth.

    Args:
        spec: the placement.
        depth: layers.
        scale: the branch scale at the start.
        gain: the factor on the initial weights of the last matrix of a branch.
    """
    if spec.norm_sum:
        text = "mean square 1 after every sub-layer at any depth: each ends in a norm"
        grows = "; the second stream adds up the branches and grows"
        return text + (grows if spec.streams == 2 else "")
    if scale == 0.0:
        return "stays as it is: every branch starts at 0, so the stack starts as the identity"
    added = [_added(spec, branch, gain) for branch in LAYER_BRANCHES]
    known = [one for one in added if one is not None]
    weight = scale**2
    start = "mean square"
    if len(known) == len(added):
        total = 1 + depth * sum(known) * weight
        each = short(sum(known) * weight, 3)
        return f"{start} about 1 + {each} L: {short(total, 3)} after {depth} layers"
    low, high = 1 + depth / 2 * weight, 1 + 3 * depth / 2 * weight
    factor = "" if scale == 1.0 else f"{short(weight, 3)} "
    band = f"{start} from 1 + {factor}L/2 to 1 + {factor}3L/2"
    source = "Xiong et al. 2020, lemma 2"
    return f"{band}: {short(low, 6)} to {short(high, 6)} after {depth} layers ({source})"


def _added(spec: PlacementSpec, branch: Branch, gain: float) -> float | None:
    """Mean square of what a branch adds, before its scale; None where attention decides."""
    if branch in spec.norm_out:
        return 1.0
    return _AFTER_INSIDE[branch] * gain**2 if branch in spec.norm_inside else None


def gradient(spec: PlacementSpec, depth: int, *, skip: float, scale: float) -> str:
    """Say what a gradient meets on its way back through the skips."""
    if spec.norm_sum:
        square = short(skip**2, 4)
        each = "1 / sqrt(1 + v)" if skip == 1.0 else f"1 / sqrt(1 + v / {square})"
        through = (1 + 0.5 / skip**2) ** -depth
        text = (
            f"each norm on the sum multiplies it by {each}, v the mean square of the branch; "
            f"with v = 1/2 in {2 * depth} sub-layers {short(through, 2)} is left"
        )
        second = "; through the second stream it comes whole"
        return text + (second if spec.streams == 2 else "")
    if scale == 0.0:
        return (
            "comes through the skips whole; the weights of every branch get exactly none at the "
            "first step, only the learned factors move"
        )
    deep = "the stream grows, so the norm in front of a deep branch makes its share smaller"
    if scale != 1.0:
        deep = f"a branch's weights get {short(scale)} of it at the start"
    return f"comes through the skips whole; {deep}"
