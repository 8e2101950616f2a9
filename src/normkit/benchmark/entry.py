"""One op of the benchmark: its tensors, its byte model, and how ours and torch's are called."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn

Mode = Literal["forward", "forward_backward", "module"]
MODES: tuple[Mode, ...] = ("forward", "forward_backward", "module")

Shape: TypeAlias = tuple[int, ...]
Sizes: TypeAlias = Mapping[str, Shape]
Inputs: TypeAlias = dict[str, Tensor]
Call: TypeAlias = Callable[..., Any]

MASKS = ("valid",)  # bool, one byte each, and without a gradient
PARAMETERS = ("weight", "bias", "linear")


@dataclass(frozen=True, kw_only=True)
class BenchOp:
    """An entry of the table.

    Attributes:
        name: as in :mod:`normkit.functional`.
        shape: of x where nobody asks for another.
        axes: how many axes x may have.
        sizes: shape of x -> shape of every input, by name, in the order of the calls.
        ours, torch, formula: functions of the inputs: normkit's, torch's own (or what people write
            where torch has none), and the formula in eager torch.
        outputs: names of what comes back; each has the shape of x.
        kept: tensors that the backward pass must read, inputs or outputs, gradients aside.
        shared: inputs whose gradient is the same tensor as another's, so it is not written.
        rows: axes of x that share one set of statistics.
        modules: normkit's and torch's module for a width, where there is one.
        compute_bound: arithmetic and not memory sets the limit, so none is given.
    """

    name: str
    shape: Shape
    axes: tuple[int, ...]
    sizes: Callable[[Shape], dict[str, Shape]]
    ours: Call
    torch: Call
    formula: Call
    outputs: tuple[str, ...] = ("y",)
    kept: tuple[str, ...] = ("x", "weight")
    shared: tuple[str, ...] = ()
    rows: tuple[int, ...] = (-1,)
    modules: tuple[Callable[[int], nn.Module], Callable[[int], nn.Module]] | None = None
    compute_bound: bool = False

    @property
    def modes(self) -> tuple[Mode, ...]:
        """What can be asked of it."""
        return MODES if self.modules else MODES[:2]

    def differentiable(self, shape: Shape) -> tuple[str, ...]:
        """Inputs that get a gradient."""
        return tuple(name for name in self.sizes(shape) if name not in MASKS)


def moved_bytes(op: BenchOp, mode: Mode, shape: Shape, itemsize: int) -> int:
    """Bytes that have to cross between memory and the processor, each once.

    Forward: every input is read, every output is written. Backward, beside that: every gradient of
    an output and every tensor in ``op.kept`` is read, every gradient of an input is written, but
    for those that are one tensor. Statistics are left out: an op may keep them or not.

    Example:
        >>> from normkit.benchmark.entries import OPS
        >>> moved_bytes(OPS["rms_norm"], "forward", (4, 8), 4)  # x 128, weight 32, y 128
        288
    """
    sizes = op.sizes(shape)
    x_bytes = math.prod(shape) * itemsize
    inputs = {
        name: math.prod(size) * (1 if name in MASKS else itemsize) for name, size in sizes.items()
    }
    forward = sum(inputs.values()) + x_bytes * len(op.outputs)
    if mode != "forward_backward":
        return forward
    read = x_bytes * len(op.outputs) + sum(inputs.get(name, x_bytes) for name in op.kept)
    written = sum(inputs[n] for n in op.differentiable(shape) if n not in op.shared)
    return forward + read + written


def make_inputs(op: BenchOp, shape: Shape, dtype: torch.dtype, *, seed: int = 0) -> Inputs:
    """Draw every input: tensors from a standard normal, a quarter of the tokens padding.

    Weights lie around 1, biases around 0, so that no product of theirs is trivial.
    """
    generator = torch.Generator().manual_seed(seed)
    return {
        name: _draw(name, size, generator).to(torch.bool if name in MASKS else dtype)
        for name, size in op.sizes(shape).items()
    }


def _draw(name: str, size: Shape, generator: torch.Generator) -> Tensor:
    drawn = torch.randn(size, generator=generator)
    if name in MASKS:
        length = size[-1]
        return (torch.arange(length) < length - length // 4).expand(size)
    if name == "weight":
        return 1 + 0.1 * drawn
    if name == "linear":
        return drawn / math.sqrt(size[-1])
    return 0.1 * drawn if name in ("bias", "scale", "shift") else drawn
