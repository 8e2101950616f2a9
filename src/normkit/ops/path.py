"""Which path an op takes: torch.compile, functional transforms, gradients on or off."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import torch
from torch import Tensor

from normkit.errors import check_choice
from normkit.spec import FUSED_OPS, NORMS

IMPLS = ("auto", "torch", "cpu")


class Situation(Enum):
    """What surrounds a call; the value is how ``normkit info`` names it."""

    FUNCTIONAL = "torch.func or forward mode"
    COMPILED = "torch.compile or export"
    NO_GRADIENT = "gradients off"
    GRADIENT = "gradients on"


@dataclass(frozen=True, kw_only=True)
class PathRow:
    """One line of ``normkit info``: which path an op takes in a situation, and why."""

    op: str
    situation: str
    path: str
    reason: str


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


_ROWS: dict[Situation, tuple[str, str]] = {
    Situation.FUNCTIONAL: (
        "reference formula",
        "differentiable at any order by vmap, grad and jvp",
    ),
    Situation.COMPILED: (
        "custom op normkit::{op}",
        "one node with a schema, a fake and a backward op in the graph",
    ),
    Situation.GRADIENT: (
        "torch operations, backward recomputed from x",
        "no compiled kernel in this version; saves nothing but the input",
    ),
    Situation.NO_GRADIENT: (
        "torch operations",
        "no compiled kernel in this version; nothing is saved",
    ),
}


def describe_paths() -> list[PathRow]:
    """Say for each op which path it takes here in which situation, and why.

    Example:
        >>> sorted({row.op for row in describe_paths()})[-2:]
        ['rms_norm', 'scale_norm']
    """
    ops = sorted({entry.op for entry in NORMS.values() if entry.op} | set(FUSED_OPS))
    return [
        PathRow(op=op, situation=where.value, path=path.format(op=op), reason=reason)
        for op in ops
        for where, (path, reason) in _ROWS.items()
    ]
