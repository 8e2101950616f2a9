"""How the compiled kernels of the norms over rows are asked: options and answers as numbers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from normkit.ops.formula import Gradients
from normkit.spec.norm import EPS_PLACES, EpsPlace


def flags(
    eps_place: EpsPlace,
    zero_centred: bool,
    *,
    round_before_gain: bool = False,
    float32_output: bool = False,
    measured: int | None = None,
) -> int:
    """The options of a norm as one number, which bindings/norm.h takes apart."""
    return (
        EPS_PLACES.index(eps_place)
        | zero_centred << 2
        | round_before_gain << 3
        | float32_output << 4
        | (measured or 0) << 8
    )


def bits(needed: Sequence[bool]) -> int:
    """Which gradients are needed, the first in bit 0."""
    return sum(1 << i for i, need in enumerate(needed) if need)


def only_needed(gradients: Sequence[Tensor], needed: Sequence[bool]) -> Gradients:
    """The gradients that were asked for; None where an empty tensor stands for one."""
    return tuple(g if need else None for g, need in zip(gradients, needed, strict=False))


def refused_output(x: torch.dtype, y: torch.dtype) -> str | None:
    """Why the kernels cannot write y in this dtype."""
    half = x in (torch.float16, torch.bfloat16)
    if y == x or (half and y == torch.float32):
        return None
    return f"x is {x} and y would be {y}"
