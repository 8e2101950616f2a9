"""Which path an op takes: torch.compile, functional transforms, gradients on or off."""

from __future__ import annotations

from enum import Enum

import torch
from torch import Tensor

from normkit.errors import check_choice

IMPLS = ("auto", "torch", "cpu")


class Situation(Enum):
    """What surrounds a call; the value is how ``normkit info`` names it."""

    FUNCTIONAL = "torch.func or forward mode"
    COMPILED = "torch.compile or export"
    NO_GRADIENT = "gradients off"
    GRADIENT = "gradients on"


def situation(*tensors: Tensor | None) -> Situation:
    """Find out what surrounds this call.

    Functional transforms come first, also inside a compiled region: the custom op cannot be
    differentiated by them.
    """
    if torch._C._are_functorch_transforms_active() or _forward_mode():
        return Situation.FUNCTIONAL
    if torch.compiler.is_compiling():
        return Situation.COMPILED
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors):
        return Situation.GRADIENT
    return Situation.NO_GRADIENT


def _forward_mode() -> bool:
    return torch.autograd.forward_ad._current_level >= 0


def check_impl(who: str, impl: str) -> None:
    """Refuse an implementation that this version does not have."""
    check_choice(who, "impl", impl, IMPLS)
