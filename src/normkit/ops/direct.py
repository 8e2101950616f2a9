"""The shortest way from a layer to a compiled kernel: one token without gradients is a few us."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from normkit.kernels import cpu

_overloads: dict[str, Any] = {}


def direct(op: str, x: Tensor, parameters: dict[str, Any], eps: float) -> Tensor | None:
    """y by the compiled op, for a norm over the last axis with a weight and without options.

    None where another path has to be taken, or has to say what is wrong: gradients are on, a
    transform or a compiler looks on, x is no plain tensor, or the kernel refuses shapes or dtypes.
    """
    weight = parameters.get("weight")
    if weight is None or type(x) is not Tensor or not _gradients_off():
        return None
    overload = _overloads.get(op) or _look_up(op)
    if overload is None:
        return None
    try:
        y: Tensor = overload(x, weight, parameters["bias"], 1, eps, 0)
    except RuntimeError:
        return None
    return y


def _gradients_off() -> bool:
    return not (
        torch.compiler.is_compiling()
        or torch.is_grad_enabled()
        or torch._C._are_functorch_transforms_active()
        or forward_ad._current_level >= 0
    )


def _look_up(op: str) -> Any | None:
    kernels = cpu.loaded()
    if kernels is None:
        return None
    _overloads[op] = getattr(kernels, op).default
    return _overloads[op]
