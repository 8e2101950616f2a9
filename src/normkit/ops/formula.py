"""A formula: an op with its options fixed, and the autograd function that serves every formula."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

Gradients = tuple[Tensor | None, ...]


@dataclass(frozen=True)
class Formula:
    """An op with its options fixed; the fields of a subclass are the op's options.

    Attributes:
        tensors: names of the tensors that get a gradient, in the order of the arguments; a ``?``
            at the end means that the tensor may be None.
        extras: the same for tensors that never get one (a mask, running statistics); they follow.
        outputs: how many tensors ``forward`` returns; those after the first are statistics.
    """

    tensors: ClassVar[tuple[str, ...]] = ("x", "weight?", "bias?")
    extras: ClassVar[tuple[str, ...]] = ()
    outputs: ClassVar[int] = 1

    def forward(self, *args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        """Outputs for ``(*tensors, *extras)``; those after the first carry no gradient."""
        raise NotImplementedError

    def backward(self, *args: Any, **kwargs: Any) -> Gradients:
        """One gradient for each of ``tensors``, given ``(dy, *tensors, *extras)``.

        In any dtype; None for a tensor that is None. Made of differentiable operations.
        """
        raise NotImplementedError

    def saved(
        self, tensors: Sequence[Tensor | None], results: Sequence[Tensor]
    ) -> Sequence[Tensor | None]:
        """What ``backward`` gets after dy: ``(*tensors, *extras)``, as they came unless a formula
        puts results in their place.
        """
        return tensors

    def fake(self, *args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        """Empty outputs with the shapes, dtypes and strides of the real ones."""
        raise NotImplementedError

    def options(self) -> tuple[Any, ...]:
        """The fields in order: the arguments of the op after its tensors."""
        return tuple(getattr(self, field.name) for field in dataclasses.fields(self))


class Recomputed(torch.autograd.Function):
    """Differentiate a formula by its written backward, which recomputes what it needs.

    Only the inputs are saved. The backward consists of torch operations on them, so that
    differentiating it again (create_graph=True) gives every higher order without further code.
    """

    @staticmethod
    def forward(ctx: Any, formula: Formula, *tensors: Tensor | None) -> tuple[Tensor, ...]:
        """Compute the outputs and keep the inputs."""
        y, *statistics = formula.forward(*tensors)
        ctx.save_for_backward(*formula.saved(tensors, (y, *statistics)))
        ctx.formula = formula
        ctx.mark_non_differentiable(*statistics)
        return not_a_view(y), *statistics

    @staticmethod
    def backward(ctx: Any, dy: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients in the dtypes of what they belong to."""
        tensors = ctx.saved_tensors
        gradients = in_dtypes(ctx.formula.backward(dy, *tensors), tensors)
        padded = (*gradients, *(None for _ in ctx.formula.extras))
        needed = ctx.needs_input_grad[1:]
        return None, *(g if need else None for g, need in zip(padded, needed, strict=True))


def not_a_view(y: Tensor) -> Tensor:
    """The same memory without the tie to a base, which y has when it was reshaped.

    Autograd forbids writing in place to a view that a function returns, and users do so: a
    ``ReLU(inplace=True)`` after a norm.
    """
    if not y._is_view():
        return y
    same: Tensor = y.new_empty(0).set_(y)  # type: ignore[call-overload]
    return same


def in_dtypes(gradients: Gradients, tensors: Sequence[Tensor | None]) -> Gradients:
    """Round gradients to the dtypes of their tensors; None for a tensor that is not there."""
    pairs = zip(gradients, tensors, strict=False)  # extras have no gradient
    return tuple(None if g is None or t is None else g.to(t.dtype) for g, t in pairs)
