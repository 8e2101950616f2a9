"""A formula: an op with its options fixed, and the autograd function that serves every formula."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from normkit.ops.kernel import cpu_kernels

Gradients = tuple[Tensor | None, ...]


@dataclass(frozen=True)
class Formula:
    """An op with its options fixed; the fields of a subclass are the op's options.

    Attributes:
        tensors: names of the tensors that get a gradient, in the order of the arguments; a ``?``
            at the end means that the tensor may be None.
        extras: the same for tensors that never get one (a mask, running statistics); they follow.
        outputs: how many tensors ``forward`` returns.
        gradients: names of the gradients of the first outputs; those after are statistics. A ``?``
            at the end means that it may be None, where nothing depends on that output.
        impl: ``auto``, or the implementation that must run.
    """

    tensors: ClassVar[tuple[str, ...]] = ("x", "weight?", "bias?")
    extras: ClassVar[tuple[str, ...]] = ()
    outputs: ClassVar[int] = 1
    gradients: ClassVar[tuple[str, ...]] = ("dy",)

    impl: str = dataclasses.field(default="auto", kw_only=True)

    def forward(self, *args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        """Outputs for ``(*tensors, *extras)``; those after the first carry no gradient."""
        raise NotImplementedError

    def backward(self, *args: Any, **kwargs: Any) -> Gradients:
        """One gradient for each of ``tensors``, given ``(*gradients, *tensors, *extras)``.

        In any dtype; None for a tensor that is None. Made of differentiable operations.
        """
        raise NotImplementedError

    @classmethod
    def has_cpu_kernel(cls) -> bool:
        """Whether a compiled kernel computes this, for the usual tensors at least."""
        return cls.cpu_forward is not Formula.cpu_forward

    def cpu_refuses(self, *args: Any, **kwargs: Any) -> str | None:
        """Why the compiled CPU kernel does not compute this; None where it does.

        Given ``(*tensors, *extras)``, which were found to be plain CPU tensors of dtypes that the
        kernels know.
        """
        return "this op has no compiled CPU kernel"

    def cpu_forward(self, kernels: Any, *args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        """The outputs by the compiled ops, ``kernels`` being their namespace."""
        raise NotImplementedError

    def cpu_backward(self, kernels: Any, needed: Sequence[bool], *args: Any) -> Gradients:
        """The gradients by the compiled ops, in the dtypes of their tensors.

        ``needed`` says which; any other may be None.
        """
        raise NotImplementedError

    def run(self, *tensors: Tensor | None) -> tuple[Tensor, ...]:
        """The outputs by the fastest implementation here, or by the one that ``impl`` names."""
        kernels = cpu_kernels(self, tensors)
        if kernels is None:
            return self.forward(*tensors)
        return self.cpu_forward(kernels, *tensors)

    def run_backward(
        self,
        gradients: Sequence[Tensor | None],
        tensors: Sequence[Tensor | None],
        needed: Sequence[bool],
    ) -> Gradients:
        """The gradients, rounded to the dtypes of their tensors; not differentiable again."""
        kernels = cpu_kernels(self, tensors)
        if kernels is None:
            return in_dtypes(self.backward(*gradients, *tensors), tensors)
        return self.cpu_backward(kernels, needed, *gradients, *tensors)

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
        """The fields as arguments of the op after its tensors; ``impl`` is the last."""
        names = [f.name for f in dataclasses.fields(self) if f.name != "impl"]
        return *(getattr(self, name) for name in names), self.impl

    @classmethod
    def of(cls, *options: Any) -> Formula:
        """Undo :meth:`options`; torch leaves out a last one that is the op's default."""
        count = len(fields_of(cls))
        return cls(*options[:count], impl=options[count] if len(options) > count else "auto")


def fields_of(kind: type[Formula]) -> list[dataclasses.Field[Any]]:
    """The options that a kind of formula has of its own."""
    return [field for field in dataclasses.fields(kind) if field.name != "impl"]


class Recomputed(torch.autograd.Function):
    """Differentiate a formula by its written backward, which recomputes what it needs.

    Only the inputs are saved. The backward consists of torch operations on them, so that
    differentiating it again (create_graph=True) gives every higher order without further code.
    """

    @staticmethod
    def forward(ctx: Any, formula: Formula, *tensors: Tensor | None) -> tuple[Tensor, ...]:
        """Compute the outputs and keep the inputs."""
        count, found = len(formula.gradients), formula.run(*tensors)
        # Before they are saved: what is saved must be what is returned, to have its derivative.
        results = *(not_a_view(y) for y in found[:count]), *found[count:]
        ctx.save_for_backward(*formula.saved(tensors, results))
        ctx.formula = formula
        ctx.mark_non_differentiable(*results[count:])
        ctx.set_materialize_grads(False)
        return results

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        """Gradients in the dtypes of what they belong to."""
        formula, tensors, needed = ctx.formula, ctx.saved_tensors, ctx.needs_input_grad[1:]
        given = gradients[: len(formula.gradients)]
        if all(g is None for g in given):
            return None, *(None for _ in needed)
        if torch.is_grad_enabled():  # create_graph: made of operations that torch differentiates
            found = in_dtypes(formula.backward(*given, *tensors), tensors)
        else:
            found = formula.run_backward(given, tensors, needed)
        padded = (*found, *(None for _ in formula.extras))
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
