"""Whether the compiled CPU kernels compute a formula on these tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from normkit.errors import ImplError, sentence
from normkit.kernels import cpu

DTYPES = frozenset((torch.float32, torch.float64, torch.float16, torch.bfloat16))
_NOT_FLOATING = (torch.bool, torch.int64)  # a mask, the seed of dropout
_PLAIN = (Tensor, nn.Parameter)


class Refusing(Protocol):
    """What this module needs to know of a formula."""

    @property
    def impl(self) -> str:
        """What was asked for: ``auto``, or the implementation that must run."""

    def cpu_refuses(self, *args: Any, **kwargs: Any) -> str | None:
        """Why the kernel does not compute this; None where it does."""


def cpu_kernels(formula: Refusing, tensors: Sequence[Tensor | None]) -> Any | None:
    """The namespace of the compiled ops; None where torch operations are to be used.

    Raises:
        ImplError: ``impl`` is ``cpu``, and the kernel cannot run.
    """
    if formula.impl == "torch":
        return None
    reason = _not_plain(tensors) or formula.cpu_refuses(*tensors)
    if reason is None:
        kernels = cpu.loaded()
        if kernels is not None:
            return kernels
        reason = cpu.why_not()
    if formula.impl == "cpu":
        rule = "impl='cpu' must be able to run"
        raise ImplError(sentence(_name(formula), rule, reason, "Try impl='auto'"))
    return None


def _not_plain(tensors: Sequence[Tensor | None]) -> str | None:
    """Why no kernel of ours takes these tensors."""
    for t in tensors:
        if t is None:
            continue
        if t.device.type != "cpu":
            return f"a tensor is on {t.device}"
        if type(t) not in _PLAIN or t.layout != torch.strided:
            return f"a tensor is no plain one but a {type(t).__name__}"
        if t.dtype not in DTYPES and t.dtype not in _NOT_FLOATING:
            return f"a tensor is {t.dtype}"
    return None


def wider(tensors: Sequence[Tensor | None]) -> str | None:
    """Why kernels that compute in the dtype of x, the first, or in float32 do not take the others.

    A float64 weight beside a narrower x would have to be rounded.
    """
    x, *rest = tensors
    assert x is not None  # no formula lets x be absent
    if x.dtype != torch.float64 and any(t is not None and t.dtype == torch.float64 for t in rest):
        return f"a parameter is torch.float64 beside x of {x.dtype}"
    return None


def _name(formula: Refusing) -> str:
    return type(formula).__name__.removesuffix("Formula")
