"""How far an implementation stands from float64, at its worst."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from normkit.benchmark.entry import MASKS, BenchOp, Mode, Shape
from normkit.benchmark.peers import Peer
from normkit.benchmark.regimes import cases
from normkit.benchmark.task import Bound, Task, make_task, output_gradients
from normkit.measure.ulp import absolute_error, ulp

Results = dict[str, Tensor]


@dataclass(frozen=True, kw_only=True)
class ErrorRow:
    """The worst of one implementation in one op, dtype and regime.

    Attributes:
        value: which output or gradient it is: ``y``, ``h``, ``dx``, ``dweight`` ...
        worst_ulp: the largest ``|value - truth|``, in ulps of the dtype at the largest truth of
            the same row (for gradients of parameters: of the same tensor). Elements near 0 in a
            row of larger ones are so not asked for digits that no sum of that row has.
        not_finite: how many are NaN or infinite where the truth is finite.
    """

    op: str
    implementation: str
    mode: str
    dtype: str
    regime: str
    value: str
    worst_ulp: float
    not_finite: int


def errors(op: BenchOp, shape: Shape, dtype: torch.dtype, mode: Mode, peer: Peer) -> list[ErrorRow]:
    """Measure one implementation over all regimes; empty where it does not have the op.

    Raises:
        RefusedError: it has the op, but not in this dtype or mode.
    """
    found: list[ErrorRow] = []
    for regime, size, draw in cases(op, shape):
        x = draw(size, dtype, torch.Generator().manual_seed(2))
        task = make_task(op, mode, size, dtype, x=x)
        bound = peer.bind(task)
        if bound is None:
            return []
        got, want = results(task, bound), truth(task)
        for name in got:
            worst, broken = compare(got[name], want[name], _row(op, name))
            found.append(
                ErrorRow(
                    op=op.name,
                    implementation=peer.name,
                    mode=mode,
                    dtype=str(dtype).removeprefix("torch."),
                    regime=regime,
                    value=name,
                    worst_ulp=worst,
                    not_finite=broken,
                )
            )
    return found


def results(task: Task, bound: Bound, dtype: torch.dtype | None = None) -> Results:
    """Outputs, and gradients where the mode has them, by name.

    Args:
        dtype: of the given gradients, which are drawn in the dtype of the task all the same.
    """
    train = task.mode == "forward_backward"
    with nullcontext() if train else torch.no_grad():
        outputs = bound.forward()
    found = {name: y.detach() for name, y in zip(task.op.outputs, outputs, strict=True)}
    if not train:
        return found
    given = tuple(g.to(dtype or task.dtype) for g in output_gradients(task, outputs))
    gradients = torch.autograd.grad(outputs, tuple(bound.leaves.values()), given)
    return found | {f"d{n}": g for n, g in zip(bound.leaves, gradients, strict=True)}


def truth(task: Task) -> Results:
    """The same from the formula, in float64.

    The sum of a residual add is rounded to the dtype first: that is what the op returns, and what
    it normalises.
    """
    wide = {
        name: t.detach() if name in MASKS else t.detach().double().requires_grad_()
        for name, t in task.inputs.items()
    }
    given = dict(wide)
    if "residual" in wide:
        given["x"], given["residual"] = rounded_sum(wide["x"], wide["residual"], task.dtype)
    bound = Bound(
        call=lambda: task.op.formula(*given.values()),
        leaves={name: t for name, t in wide.items() if name not in MASKS},
    )
    return results(task, bound, torch.float64)


def rounded_sum(x64: Tensor, residual64: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Two numbers whose exact sum is that of x and the residual, rounded; gradients pass."""
    exact = x64 + residual64
    error = (exact.to(dtype).double() - exact).detach()
    return exact + error, torch.zeros_like(residual64)


def compare(got: Tensor, want64: Tensor, axes: tuple[int, ...] | None) -> tuple[float, int]:
    """The worst error in ulps at the scale of the row, and how many values are not finite.

    Args:
        axes: the axes of a row; None takes the whole tensor as one.

    Example:
        >>> want64 = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
        >>> compare(torch.tensor([[1.0, 2.0**-23]]), want64, (-1,))
        (1.0, 0)
    """
    over = tuple(range(want64.dim())) if axes is None else axes
    if want64.numel() == 0:
        return 0.0, 0
    scale = want64.abs().amax(over, keepdim=True)
    broken = int((want64.to(got.dtype).isfinite() & ~got.isfinite()).sum())
    error = absolute_error(got.detach(), want64) / ulp(scale, got.dtype)
    return float(error.max()), broken


def worst(rows: list[ErrorRow]) -> Mapping[str, ErrorRow]:
    """The row with the largest error for each value."""
    found: dict[str, ErrorRow] = {}
    for row in rows:
        if row.value not in found or _key(row) > _key(found[row.value]):
            found[row.value] = row
    return found


def _key(row: ErrorRow) -> tuple[int, float]:
    return row.not_finite, math.inf if math.isnan(row.worst_ulp) else row.worst_ulp


def _row(op: BenchOp, name: str) -> tuple[int, ...] | None:
    """The axes of a row of this value; a parameter's gradient has no rows."""
    of_x = (*op.outputs, "dx", "dresidual", "dgate")
    return op.rows if name in of_x else None
