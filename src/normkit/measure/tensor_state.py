"""The state of one tensor: its bits, its place, its gradient; what changed, and the way back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

Hooks = dict[int, object]


@dataclass(frozen=True, kw_only=True)
class TensorState:
    """One tensor as it was.

    Attributes:
        tensor: the object itself.
        alias: a second tensor on the same storage, which survives ``tensor.data = other``.
        bits: a copy of the values.
        requires_grad: as it was.
        hooks: the hooks on the tensor itself, and those after its gradient is accumulated.
        grad: state of the gradient, or None where there was none.
    """

    tensor: Tensor
    alias: Tensor
    bits: Tensor
    requires_grad: bool
    hooks: tuple[Hooks, Hooks]
    grad: TensorState | None

    @classmethod
    def take(cls, tensor: Tensor) -> TensorState:
        """Record ``tensor`` and its gradient."""
        grad = _grad(tensor)
        return cls(
            tensor=tensor,
            alias=tensor.data,
            bits=tensor.detach().clone(),
            requires_grad=tensor.requires_grad,
            hooks=_copies(_hooks(tensor)),
            grad=None if grad is None else cls.take(grad),
        )

    def differences(self, name: str, now: Tensor) -> Iterator[str]:
        """Say how ``now``, the tensor that has the name today, is no longer what it was."""
        if now is not self.tensor:
            yield f"{name} was replaced by another tensor."
        yield from _value_differences(name, self.bits, now)
        if now.requires_grad != self.requires_grad:
            yield _was(name, "requires_grad", self.requires_grad, now.requires_grad)
        if _copies(_hooks(now)) != self.hooks:
            yield f"{name}: its tensor hooks changed."
        yield from self._grad_differences(f"gradient of {name}", _grad(now))

    def restore(self) -> None:
        """Put values, storage, dtype, requires_grad, hooks and gradient of the tensor back."""
        self._restore_value()
        for before, now in zip(self.hooks, _hooks(self.tensor), strict=True):
            if now is not None:  # autograd holds this very dict, so its content changes
                now.clear()
                now.update(before)
        if self.tensor.is_leaf:
            self.tensor.requires_grad_(self.requires_grad)
            if self.grad is not None:
                self.grad._restore_value()
            self.tensor.grad = None if self.grad is None else self.grad.tensor

    def _grad_differences(self, name: str, now: Tensor | None) -> Iterator[str]:
        if now is None:
            if self.grad is not None:
                yield f"{name}: there was one, there is none now."
        elif self.grad is None:
            yield f"{name}: there was none, there is one now."
        else:
            yield from _value_differences(name, self.grad.bits, now)

    def _restore_value(self) -> None:
        if count_changed(self.bits, self.alias):
            self.alias.copy_(self.bits)
        self.tensor.data = self.alias


def count_changed(before: Tensor, now: Tensor) -> int:
    """Count the elements whose bits differ; NaN equals itself, and 0.0 differs from -0.0.

    Tensors of another dtype, device or shape are not compared, and neither are meta tensors.
    """
    alike = (before.dtype, before.device, before.shape) == (now.dtype, now.device, now.shape)
    if not alike or before.is_meta:
        return 0
    different = _bytes(before) != _bytes(now)
    return int(different.any(-1).sum())


def _value_differences(name: str, before: Tensor, now: Tensor) -> Iterator[str]:
    for what in ("dtype", "device"):
        if getattr(now, what) != getattr(before, what):
            yield _was(name, what, getattr(before, what), getattr(now, what))
    if now.shape != before.shape:
        yield _was(name, "shape", tuple(before.shape), tuple(now.shape))
    changed = count_changed(before, now)
    if changed:
        yield f"{name}: {changed} of {before.numel()} elements changed."


def _grad(tensor: Tensor) -> Tensor | None:
    return tensor.grad if tensor.is_leaf else None


def _bytes(tensor: Tensor) -> Tensor:
    """View n elements as (n, bytes per element)."""
    flat = tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1, 1)
    return flat.view(torch.uint8)


def _hooks(tensor: Tensor) -> tuple[Hooks | None, Hooks | None]:
    """The two dicts that torch keeps on a tensor; None where no hook was ever registered."""
    after = getattr(tensor, "_post_accumulate_grad_hooks", None)
    return cast("Hooks | None", tensor._backward_hooks), after


def _copies(hooks: tuple[Hooks | None, Hooks | None]) -> tuple[Hooks, Hooks]:
    return dict(hooks[0] or {}), dict(hooks[1] or {})


def _was(name: str, what: str, before: object, now: object) -> str:
    return f"{name}: {what} was {before}, is {now}."
