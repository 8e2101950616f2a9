"""Turn a formula into a custom op (schema, fake, backward op), and run it on the path that fits."""

from __future__ import annotations

import dataclasses
import types
import typing
from typing import Any

import torch
from torch import Tensor
from torch._library.custom_ops import CustomOpDef

from normkit.ops.formula import Formula, Gradients, Recomputed, in_dtypes
from normkit.ops.path import Situation, situation
from normkit.ops.precision import compute_dtype


@dataclasses.dataclass(frozen=True)
class Op:
    """A formula class and the custom op that stands for it in compiled and exported graphs."""

    custom_op: CustomOpDef

    def __call__(
        self,
        formula: Formula,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        *extras: Tensor | None,
    ) -> tuple[Tensor, ...]:
        """Run on the path that fits. Shapes and dtypes were checked by the caller."""
        where = situation(x, weight, bias)
        if where is Situation.COMPILED:
            y = self.custom_op(x, weight, bias, *extras, *formula.options())
            return (y,) if isinstance(y, Tensor) else y
        if where is Situation.GRADIENT:
            return Recomputed.apply(formula, x, weight, bias, *extras)  # type: ignore[no-any-return, no-untyped-call]
        return formula.forward(x, weight, bias, *extras)


def register(
    name: str, kind: type[Formula], *, extras: tuple[str, ...] = (), outputs: int = 1
) -> Op:
    """Define ``normkit::name`` and ``normkit::name_backward`` from a formula class.

    Args:
        name: of the op.
        kind: the formula; its fields become the op's options.
        extras: names of the tensors without a gradient, after weight and bias.
        outputs: how many tensors the op returns, the first of them differentiable.
    """
    skip = len(extras)
    backward_op = _backward_op(name, kind, extras)

    def forward(x: Tensor, weight: Tensor | None, bias: Tensor | None, *rest: Any) -> Any:
        results = kind(*rest[skip:]).forward(x, weight, bias, *rest[:skip])
        return results if outputs > 1 else results[0]

    def fake(x: Tensor, weight: Tensor | None, bias: Tensor | None, *rest: Any) -> Any:
        results = kind(*rest[skip:]).fake(x, weight)
        return results if outputs > 1 else results[0]

    def keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        x, weight, bias, *rest = inputs
        ctx.save_for_backward(x, weight, *rest[:skip])
        ctx.options = rest[skip:]
        ctx.bias_dtype = None if bias is None else bias.dtype
        if outputs > 1:
            ctx.mark_non_differentiable(*output[1:])

    def backward(ctx: Any, dy: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, *kept = ctx.saved_tensors
        wide = backward_op(dy, x, weight, *kept, *ctx.options)
        gradients = in_dtypes(wide, weight, ctx.bias_dtype)
        return *gradients, *(None for _ in range(skip)), *(None for _ in ctx.options)

    results = "Tensor" if outputs == 1 else f"({', '.join(['Tensor'] * outputs)})"
    inputs = _signature("Tensor x, Tensor? weight, Tensor? bias", kind, extras)
    custom_op = torch.library.custom_op(
        f"normkit::{name}", forward, mutates_args=(), schema=f"({inputs}) -> {results}"
    )
    custom_op.register_fake(fake)
    custom_op.register_autograd(backward, setup_context=keep)
    return Op(custom_op)


def _backward_op(name: str, kind: type[Formula], extras: tuple[str, ...]) -> CustomOpDef:
    skip = len(extras)

    def backward(dy: Tensor, x: Tensor, weight: Tensor | None, *rest: Any) -> Gradients:
        return kind(*rest[skip:]).backward(dy, x, weight, *rest[:skip])

    def fake(dy: Tensor, x: Tensor, weight: Tensor | None, *rest: Any) -> Gradients:
        dtype, shape = compute_dtype(x), kind(*rest[skip:]).parameter_shape(x)
        dx = torch.empty_like(x, memory_format=torch.contiguous_format)
        return dx, x.new_empty(shape, dtype=dtype), x.new_empty(shape, dtype=dtype)

    inputs = _signature("Tensor dy, Tensor x, Tensor? weight", kind, extras)
    custom_op = torch.library.custom_op(
        f"normkit::{name}_backward",
        backward,
        mutates_args=(),
        schema=f"({inputs}) -> (Tensor, Tensor, Tensor)",
    )
    custom_op.register_fake(fake)
    return custom_op


def _signature(tensors: str, kind: type[Formula], extras: tuple[str, ...]) -> str:
    """Arguments of an op: its tensors, the extras, the fields of the formula."""
    hints = typing.get_type_hints(kind)
    options = [f"{_schema_type(hints[f.name])} {f.name}" for f in dataclasses.fields(kind)]
    return ", ".join([tensors, *(f"Tensor? {extra}" for extra in extras), *options])


def _schema_type(hint: Any) -> str:
    """Write a field's type as an operator schema does: ``int``, ``float?``, ``str`` ..."""
    if isinstance(hint, types.UnionType):
        (inner,) = (arg for arg in typing.get_args(hint) if arg is not type(None))
        return f"{_schema_type(inner)}?"
    return "str" if typing.get_origin(hint) is typing.Literal else str(hint.__name__)
