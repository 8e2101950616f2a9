"""The shortest way from a layer to a compiled kernel: one token without gradients is a few us."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from normkit.kernels import cpu
from normkit.ops.kernel import DTYPES

_overloads: dict[str, Any] = {}


def direct(op: str, x: Tensor, parameters: dict[str, Any], eps: float) -> Tensor | None:
    """y by the compiled op, for a norm over the last axis with a weight and without options.

    None where another path has to be taken, or has to say what is wrong: gradients are on, a
    transform or a compiler looks on, x is not a plain tensor, or shapes and dtypes are not those
    that a layer usually has.
    """
    weight, bias = parameters.get("weight"), parameters.get("bias")
    if weight is None or not _gradients_off() or not _usual(x, weight, bias):
        return None
    overload = _overloads.get(op) or _look_up(op)
    if overload is None:
        return None
    y: Tensor = overload(x, weight, bias, 1, eps, 0)
    return y


def _gradients_off() -> bool:
    return not (
        torch.compiler.is_compiling()
        or torch.is_grad_enabled()
        or torch._C._are_functorch_transforms_active()
        or forward_ad._current_level >= 0
    )


def _usual(x: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    return (
        type(x) is Tensor
        and x.is_cpu
        and x.layout is torch.strided
        and not x.is_nested
        and x.dtype in DTYPES
        and (weight.dtype is x.dtype or weight.dtype is torch.float32)
        and (bias is None or (bias.dtype is weight.dtype and bias.is_cpu))
        and weight.is_cpu
        and x.shape[-1:] == weight.shape
    )


def _look_up(op: str) -> Any | None:
    kernels = cpu.loaded()
    if kernels is None:
        return None
    _overloads[op] = getattr(kernels, op).default
    return _overloads[op]
