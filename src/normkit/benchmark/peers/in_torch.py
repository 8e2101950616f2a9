"""Ours, torch's, the eager formula, and torch's two compilers: all are functions of tensors."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from normkit.benchmark.entry import MASKS, BenchOp, Call
from normkit.benchmark.peers.peer import Peer, RefusedError
from normkit.benchmark.task import Bound, Task


class FunctionPeer(Peer):
    """A function of the op's inputs; a module of the op's in module mode, where it has one."""

    def __init__(
        self, name: str, function: Callable[[BenchOp], Call], *, module: int | None = None
    ) -> None:
        self.name, self.function, self.module = name, function, module

    def bind(self, task: Task) -> Bound | None:
        """Close over the tensors."""
        call = self.call(task)
        if call is None:
            return None
        inputs = tuple(task.inputs.values())[: 1 if task.mode == "module" else None]
        return Bound(call=functools.partial(call, *inputs), leaves=leaves(task))

    def call(self, task: Task) -> Call | None:
        """The function, or the module; None where this has none."""
        if task.mode != "module":
            return self.function(task.op)
        if self.module is None or task.op.modules is None:
            return None
        return made(task.op.modules[self.module](task.shape[-1]), task)


class CompilePeer(FunctionPeer):
    """torch.compile of torch's function."""

    def __init__(self, backend: str = "inductor") -> None:
        super().__init__("compile", lambda op: op.torch, module=1)
        self.backend = backend

    def bind(self, task: Task) -> Bound | None:
        """Compile for these shapes alone; what was compiled for others is forgotten.

        Without that, Dynamo would give up after a few shapes and run eagerly, silently.
        """
        torch._dynamo.reset()
        return super().bind(task)

    def call(self, task: Task) -> Call | None:
        """Compiled at the first call."""
        found = super().call(task)
        if found is None:
            return None
        return torch.compile(found, dynamic=False, backend=self.backend)


class ScriptPeer(FunctionPeer):
    """The eager formula under torch.jit.script."""

    def __init__(self) -> None:
        super().__init__("script", _scripted)


def _scripted(op: BenchOp) -> Call:
    with warnings.catch_warnings():  # torch deprecates it; people have it
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            scripted: Call = torch.jit.script(op.formula)
        except RuntimeError as error:
            raise RefusedError(f"TorchScript does not take it: {first_line(error)}") from error
    return scripted


def leaves(task: Task) -> dict[str, Any]:
    """Inputs that get a gradient."""
    return {name: tensor for name, tensor in task.inputs.items() if name not in MASKS}


def made(module: nn.Module, task: Task) -> nn.Module:
    """A module in the dtype and on the device of a task."""
    return module.to(device=task.device, dtype=task.dtype)


def first_line(error: BaseException) -> str:
    """What an error says first."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "no reason")
