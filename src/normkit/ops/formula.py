"""A formula: an op with its options fixed, and the autograd function that serves every formula."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

Gradients = tuple[Tensor, Tensor, Tensor]


@dataclass(frozen=True)
class Formula:
    """An op with its options fixed; the fields of a subclass are the op's options.

    ``extras`` are tensors that never get a gradient (a mask, running statistics).
    """

    def forward(
        self, x: Tensor, weight: Tensor | None, bias: Tensor | None, *extras: Tensor | None
    ) -> tuple[Tensor, ...]:
        """Outputs; those after the first are statistics without a gradient."""
        raise NotImplementedError

    def backward(
        self, dy: Tensor, x: Tensor, weight: Tensor | None, *extras: Tensor | None
    ) -> Gradients:
        """Gradients of x in its dtype, of weight and bias in the compute dtype.

        Made of differentiable operations. Where there is no weight or bias, the gradient that it
        would have had.
        """
        raise NotImplementedError

    def fake(self, x: Tensor, weight: Tensor | None) -> tuple[Tensor, ...]:
        """Empty outputs with the shapes, dtypes and strides of the real ones."""
        raise NotImplementedError

    def parameter_shape(self, x: Tensor) -> torch.Size:
        """Shape of weight and bias for this x."""
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
    def forward(
        ctx: Any,
        formula: Formula,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        *extras: Tensor | None,
    ) -> tuple[Tensor, ...]:
        """Compute the outputs and keep the inputs."""
        ctx.save_for_backward(x, weight, *extras)
        ctx.formula = formula
        ctx.bias_dtype = None if bias is None else bias.dtype
        y, *statistics = formula.forward(x, weight, bias, *extras)
        ctx.mark_non_differentiable(*statistics)
        return not_a_view(y), *statistics

    @staticmethod
    def backward(ctx: Any, dy: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients in the dtypes of what they belong to."""
        x, weight, *extras = ctx.saved_tensors
        wide = ctx.formula.backward(dy, x, weight, *extras)
        gradients = in_dtypes(wide, weight, ctx.bias_dtype)
        needed = ctx.needs_input_grad[1:4]
        wanted = (g if need else None for g, need in zip(gradients, needed, strict=True))
        return None, *wanted, *(None for _ in extras)


def not_a_view(y: Tensor) -> Tensor:
    """The same memory without the tie to a base, which y has when it was reshaped.

    Autograd forbids writing in place to a view that a function returns, and users do so: a
    ``ReLU(inplace=True)`` after a norm.
    """
    if not y._is_view():
        return y
    same: Tensor = y.new_empty(0).set_(y)  # type: ignore[call-overload]
    return same


def in_dtypes(
    gradients: Gradients, weight: Tensor | None, bias_dtype: torch.dtype | None
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Round gradients to the dtypes of their tensors; None for a parameter that is not there."""
    dx, dweight, dbias = gradients
    return (
        dx,
        None if weight is None else dweight.to(weight.dtype),
        None if bias_dtype is None else dbias.to(bias_dtype),
    )
