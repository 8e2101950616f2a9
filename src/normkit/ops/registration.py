"""Turn a formula into a custom op (schema, fake, backward op), and run it on the path that fits."""

from __future__ import annotations

import dataclasses
import types
import typing
from typing import Any

import torch
from torch import Tensor
from torch._library.custom_ops import CustomOpDef

from normkit.ops.formula import Formula, Recomputed, in_dtypes
from normkit.ops.path import Situation, situation


@dataclasses.dataclass(frozen=True)
class Op:
    """A formula class and the custom op that stands for it in compiled and exported graphs."""

    custom_op: CustomOpDef

    def __call__(self, formula: Formula, *tensors: Tensor | None) -> tuple[Tensor, ...]:
        """Run on the path that fits, given the formula's tensors and extras, all of them.

        Shapes and dtypes were checked by the caller.
        """
        where = situation(*tensors)
        if where is Situation.COMPILED:
            y = self.custom_op(*tensors, *formula.options())
            return (y,) if isinstance(y, Tensor) else y
        if where is Situation.GRADIENT:
            return Recomputed.apply(formula, *tensors)  # type: ignore[no-any-return, no-untyped-call]
        return formula.forward(*tensors)


def register(name: str, kind: type[Formula]) -> Op:
    """Define ``normkit::name`` and ``normkit::name_backward`` from a formula class."""
    count = len(kind.tensors) + len(kind.extras)
    backward_op = _backward_op(name, kind)

    def forward(*args: Any) -> Any:
        results = kind(*args[count:]).forward(*args[:count])
        return results if kind.outputs > 1 else results[0]

    def fake(*args: Any) -> Any:
        results = kind(*args[count:]).fake(*args[:count])
        return results if kind.outputs > 1 else results[0]

    def keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        results = output if kind.outputs > 1 else (output,)
        ctx.options = inputs[count:]
        ctx.save_for_backward(*kind(*ctx.options).saved(inputs[:count], results))
        if kind.outputs > 1:
            ctx.mark_non_differentiable(*output[1:])

    def backward(ctx: Any, dy: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        tensors = ctx.saved_tensors
        pairs = zip(backward_op(dy, *tensors, *ctx.options), tensors, strict=False)
        gradients = (None if t is None else g for g, t in pairs)
        return *gradients, *(None for _ in kind.extras), *(None for _ in ctx.options)

    custom_op = _define(name, forward, _signature(kind), kind.outputs)
    custom_op.register_fake(fake)
    custom_op.register_autograd(backward, setup_context=keep)
    return Op(custom_op)


def _backward_op(name: str, kind: type[Formula]) -> CustomOpDef:
    """The op that returns one gradient for each tensor: an empty one where there is no tensor."""
    count = len(kind.tensors) + len(kind.extras)

    def backward(dy: Tensor, *args: Any) -> Any:
        tensors = args[:count]
        gradients = in_dtypes(kind(*args[count:]).backward(dy, *tensors), tensors)
        return _only_one(tuple(dy.new_empty(0) if g is None else g for g in gradients))

    def fake(dy: Tensor, *args: Any) -> Any:
        shaped = args[: len(kind.tensors)]
        return _only_one(tuple(dy.new_empty(0) if t is None else _empty(t) for t in shaped))

    inputs = f"Tensor dy, {_signature(kind)}"
    custom_op = _define(f"{name}_backward", backward, inputs, len(kind.tensors))
    custom_op.register_fake(fake)
    return custom_op


def _define(name: str, function: Any, inputs: str, outputs: int) -> CustomOpDef:
    results = "Tensor" if outputs == 1 else f"({', '.join(['Tensor'] * outputs)})"
    schema = f"({inputs}) -> {results}"
    custom_op: CustomOpDef = torch.library.custom_op(
        f"normkit::{name}", function, mutates_args=(), schema=schema
    )
    return custom_op


def _empty(t: Tensor) -> Tensor:
    return torch.empty_like(t, memory_format=torch.contiguous_format)


def _only_one(results: tuple[Tensor, ...]) -> Tensor | tuple[Tensor, ...]:
    return results if len(results) > 1 else results[0]


def _signature(kind: type[Formula]) -> str:
    """Arguments of an op: its tensors, the extras, the fields of the formula."""
    hints = typing.get_type_hints(kind)
    names = (*kind.tensors, *kind.extras)
    tensors = [f"Tensor{'?' * name.endswith('?')} {name.removesuffix('?')}" for name in names]
    options = [f"{_schema_type(hints[f.name])} {f.name}" for f in dataclasses.fields(kind)]
    return ", ".join([*tensors, *options])


def _schema_type(hint: Any) -> str:
    """Write a field's type as an operator schema does: ``int``, ``float?``, ``str`` ..."""
    if isinstance(hint, types.UnionType):
        (inner,) = (arg for arg in typing.get_args(hint) if arg is not type(None))
        return f"{_schema_type(inner)}?"
    return "str" if typing.get_origin(hint) is typing.Literal else str(hint.__name__)
