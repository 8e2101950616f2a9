"""What the functions share that add a residual and normalise the sum: checks, seed, result."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from normkit import ops
from normkit.errors import DtypeError, OptionError, ShapeError, StateError, sentence
from normkit.ops import AddNormFormula, Situation, situation
from normkit.ops.registration import Op

_SEEDS = 2**63


class AddNormOutput(NamedTuple):
    """Result of :func:`add_layer_norm`, :func:`add_rms_norm` and the same with dropout.

    Attributes:
        y: the norm of h, in the shape and dtype of x.
        h: the sum, in the dtype that x and residual promote to: the next residual.
    """

    y: Tensor
    h: Tensor


def check_residual(who: str, x: Tensor, residual: Any, alpha: Any) -> None:
    """Check what is added to x, a tensor that was checked, and its factor."""
    if not isinstance(residual, Tensor) or not residual.is_floating_point():
        came = residual.dtype if isinstance(residual, Tensor) else type(residual).__name__
        rule = "residual must be a floating-point tensor"
        raise DtypeError(sentence(who, rule, f"it is {came}"))
    if residual.shape != x.shape:
        rule = f"residual must have the shape of x, {tuple(x.shape)}"
        raise ShapeError(sentence(who, rule, f"it is {tuple(residual.shape)}"))
    number = isinstance(alpha, int | float) and not isinstance(alpha, bool)
    if not (number and -math.inf < alpha < math.inf):
        came, fix = f"it is {alpha!r}", ""
        if isinstance(alpha, Tensor):
            came, fix = "it is a Tensor", "Try alpha.item()"
        raise OptionError(sentence(who, "alpha must be a finite number", came, fix))


def dropout_seed(who: str, p: float, training: bool, seed: Tensor | int | None) -> Tensor | None:
    """The seed of a mask, drawn from torch's generator where it is None; None without dropout."""
    if not (isinstance(p, int | float) and 0 <= p <= 1):
        raise OptionError(sentence(who, "p must lie in [0, 1]", f"it is {p!r}"))
    if not training or p == 0:
        return None
    if seed is None:
        return torch.randint(_SEEDS - 1, (), dtype=torch.int64)
    if isinstance(seed, Tensor):
        if seed.dtype == torch.int64 and seed.shape == ():
            return seed
        came = f"it is {seed.dtype} of shape {tuple(seed.shape)}"
    elif isinstance(seed, int) and not isinstance(seed, bool):
        if -_SEEDS <= seed < _SEEDS:
            return torch.tensor(seed, dtype=torch.int64)
        came = f"it is {seed}"
    else:
        came = f"it is {seed!r}"
    rule = "seed must be an integer of 64 bits with its sign, or a torch.int64 tensor of shape ()"
    raise OptionError(sentence(who, rule, came))


def add_and_normalise(
    who: str, op: Op, formula: AddNormFormula, *tensors: Tensor | None, inplace: bool
) -> AddNormOutput:
    """Run the op; ``inplace`` writes h to the residual's memory."""
    if not inplace:
        return AddNormOutput(*op(formula, *tensors))
    _check_in_place(who, *tensors)
    return AddNormOutput(*ops.in_place(op, formula, *tensors))


def _check_in_place(who: str, *tensors: Any) -> None:
    """Refuse to overwrite a residual that a backward pass needs, or that cannot hold h."""
    x, residual, *_ = tensors
    where = situation(*tensors)
    if where is Situation.FUNCTIONAL:
        rule = "inplace=True is not for torch.func and forward-mode derivatives"
        raise StateError(sentence(who, rule, "this call stands inside one", "Try inplace=False"))
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors):
        rule = "inplace=True needs gradients off"
        came = "a backward pass would need the residual that it overwrites"
        fix = "Try inplace=False, or call it inside torch.no_grad()"
        raise StateError(sentence(who, rule, came, fix))
    if torch.promote_types(x.dtype, residual.dtype) != residual.dtype:
        rule = "inplace=True needs a residual that can hold h"
        came = f"residual is {residual.dtype} and x is {x.dtype}"
        raise DtypeError(sentence(who, rule, came, "Try inplace=False"))
    steps = zip(residual.shape, residual.stride(), strict=True)
    if any(size > 1 and step == 0 for size, step in steps):
        rule = "inplace=True needs a residual with memory for each element"
        came = "it is expanded"
        raise StateError(sentence(who, rule, came, "Try residual.contiguous()"))
