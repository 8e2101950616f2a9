"""Turn a formula into a custom op (schema, fake, backward op), and run it on the path that fits."""

from __future__ import annotations

import dataclasses
import types
import typing
from typing import Any

import torch
from torch import Tensor
from torch._library.custom_ops import CustomOpDef

from normkit.ops.formula import Formula, Recomputed, fields_of
from normkit.ops.path import Situation, situation

# Every op by its name.
KINDS: dict[str, type[Formula]] = {}


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
        if where is Situation.FUNCTIONAL:
            return formula.forward(*tensors)
        return formula.run(*tensors)


def register(name: str, kind: type[Formula]) -> Op:
    """Define ``normkit::name`` and ``normkit::name_backward`` from a formula class."""
    count, differentiable = len(kind.tensors) + len(kind.extras), len(kind.gradients)
    backward_op = _backward_op(name, kind)

    def forward(*args: Any) -> Any:
        return _only_one(kind.of(*args[count:]).run(*args[:count]))

    def fake(*args: Any) -> Any:
        return _only_one(kind.of(*args[count:]).fake(*args[:count]))

    def keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        results = output if kind.outputs > 1 else (output,)
        ctx.options = inputs[count:]
        ctx.save_for_backward(*kind.of(*ctx.options).saved(inputs[:count], results))
        ctx.mark_non_differentiable(*results[differentiable:])
        ctx.set_materialize_grads(False)

    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        tensors, given = ctx.saved_tensors, gradients[:differentiable]
        nothing = (*(None for _ in kind.extras), *(None for _ in ctx.options))
        if all(g is None for g in given):
            return *(None for _ in kind.tensors), *nothing
        needed = list(ctx.needs_input_grad[: len(tensors)])
        found = backward_op(*given, *tensors, needed, *ctx.options)
        pairs = zip((found,) if isinstance(found, Tensor) else found, needed, strict=False)
        return *(g if need else None for g, need in pairs), *nothing

    KINDS[name] = kind
    custom_op = _define(name, forward, _signature(kind), kind.outputs)
    custom_op.register_fake(fake)
    custom_op.register_autograd(backward, setup_context=keep)
    return Op(custom_op)


def _backward_op(name: str, kind: type[Formula]) -> CustomOpDef:
    """The op that returns one gradient for each tensor: an empty one where it is not needed."""
    given = len(kind.gradients)
    count = given + len(kind.tensors) + len(kind.extras)

    def backward(*args: Any) -> Any:
        gradients, tensors, needed = args[:given], args[given:count], args[count]
        found = kind.of(*args[count + 1 :]).run_backward(gradients, tensors, needed)
        triples = zip(found, tensors, needed, strict=False)  # extras have no gradient
        nothing = _nothing(tensors)
        results = (_whole(g, t) if need else nothing.clone() for g, t, need in triples)
        return _only_one(_own_memory(tuple(results)))

    def fake(*args: Any) -> Any:
        tensors, needed = args[given : given + len(kind.tensors)], args[count]
        nothing, pairs = _nothing(tensors), zip(tensors, needed, strict=False)
        return _only_one(tuple(_empty(t) if need else nothing.clone() for t, need in pairs))

    inputs = f"{_arguments(kind.gradients)}, {_signature(kind, 'bool[] needed')}"
    custom_op = _define(f"{name}_backward", backward, inputs, len(kind.tensors))
    custom_op.register_fake(fake)
    return custom_op


def _own_memory(results: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Copy a result that came before: the outputs of an op may not share memory."""
    return tuple(
        t.clone() if any(t is other for other in results[:i]) else t for i, t in enumerate(results)
    )


def _define(name: str, function: Any, inputs: str, outputs: int) -> CustomOpDef:
    results = "Tensor" if outputs == 1 else f"({', '.join(['Tensor'] * outputs)})"
    schema = f"({inputs}) -> {results}"
    custom_op: CustomOpDef = torch.library.custom_op(
        f"normkit::{name}", function, mutates_args=(), schema=schema
    )
    return custom_op


def _nothing(tensors: tuple[Tensor | None, ...]) -> Tensor:
    """What an op returns in the place of a gradient that nobody asked for."""
    return next(t for t in tensors if t is not None).new_empty(0)


def _whole(gradient: Tensor | None, t: Tensor) -> Tensor:
    """The gradient of t: zeros where t only went into outputs that nothing depends on."""
    return t.new_zeros(t.shape) if gradient is None else gradient


def _empty(t: Tensor) -> Tensor:
    return torch.empty_like(t, memory_format=torch.contiguous_format)


def _only_one(results: tuple[Tensor, ...]) -> Tensor | tuple[Tensor, ...]:
    return results if len(results) > 1 else results[0]


def _signature(kind: type[Formula], *between: str) -> str:
    """Arguments of an op: its tensors, the extras, anything else, the fields of the formula."""
    hints = typing.get_type_hints(kind)
    options = [f"{_schema_type(hints[f.name])} {f.name}" for f in fields_of(kind)]
    return ", ".join(
        [_arguments((*kind.tensors, *kind.extras)), *between, *options, 'str impl="auto"']
    )


def _arguments(names: tuple[str, ...]) -> str:
    return ", ".join(f"Tensor{'?' * n.endswith('?')} {n.removesuffix('?')}" for n in names)


def _schema_type(hint: Any) -> str:
    """Write a field's type as an operator schema does: ``int``, ``float?``, ``str`` ..."""
    if isinstance(hint, types.UnionType):
        (inner,) = (arg for arg in typing.get_args(hint) if arg is not type(None))
        return f"{_schema_type(inner)}?"
    return "str" if typing.get_origin(hint) is typing.Literal else str(hint.__name__)
