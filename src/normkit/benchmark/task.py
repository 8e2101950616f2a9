"""One measurement: an op in a mode, dtype and shape, with its tensors and what is called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from normkit.benchmark.entry import MASKS, PARAMETERS, BenchOp, Inputs, Mode, Shape, make_inputs

Outputs: TypeAlias = tuple[Tensor, ...]


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is to be done, and on which tensors."""

    op: BenchOp
    mode: Mode
    shape: Shape
    dtype: torch.dtype
    threads: int = 1
    device: str = "cpu"
    inputs: Inputs = field(repr=False)

    @property
    def words(self) -> str:
        """``rms_norm forward float32 4096x1024``."""
        return f"{self.op.name} {self.mode} {dtype_name(self.dtype)} {shape_words(self.shape)}"


@dataclass(frozen=True, kw_only=True)
class Bound:
    """An implementation with its tensors in hand.

    Attributes:
        call: computes one output, or a tuple of them.
        leaves: what gets a gradient, under the names of the op's inputs.
    """

    call: Callable[[], Any]
    leaves: Mapping[str, Tensor]

    def forward(self) -> Outputs:
        """The outputs as a tuple."""
        return as_outputs(self.call())

    def step(self, gradients: Outputs) -> Callable[[], object]:
        """Forward, then backward from given gradients of the outputs."""
        leaves = tuple(self.leaves.values())
        return lambda: torch.autograd.grad(as_outputs(self.call()), leaves, gradients)


def make_task(
    op: BenchOp,
    mode: Mode,
    shape: Shape,
    dtype: torch.dtype,
    *,
    threads: int = 1,
    device: str = "cpu",
    x: Tensor | None = None,
) -> Task:
    """Draw the tensors of a task; ``x`` in the place of a drawn one. They are leaves of autograd
    where the mode has a backward pass."""
    drawn = make_inputs(op, shape, dtype)
    if x is not None:
        drawn["x"] = x.to(dtype)
    train = mode == "forward_backward"
    inputs = {name: _leaf(name, tensor.to(device), train) for name, tensor in drawn.items()}
    return Task(
        op=op,
        mode=mode,
        shape=shape,
        dtype=dtype,
        threads=threads,
        device=device,
        inputs=inputs,
    )


def output_gradients(task: Task, outputs: Outputs) -> Outputs:
    """Drawn gradients of the outputs in the dtype of the task, contiguous."""
    generator = torch.Generator().manual_seed(1)
    return tuple(
        torch.randn(y.shape, generator=generator).to(task.device, task.dtype) for y in outputs
    )


def as_outputs(value: Tensor | tuple[Tensor, ...]) -> Outputs:
    """One output as a tuple of one."""
    return (value,) if isinstance(value, Tensor) else tuple(value)


def dtype_name(dtype: torch.dtype) -> str:
    """``float32`` for torch.float32."""
    return str(dtype).removeprefix("torch.")


def shape_words(shape: Shape) -> str:
    """``4096x1024``."""
    return "x".join(map(str, shape))


def _leaf(name: str, tensor: Tensor, train: bool) -> Tensor:
    if name in MASKS or not train:
        return tensor
    return nn.Parameter(tensor) if name in PARAMETERS else tensor.requires_grad_()
