"""What ``normkit info`` says: which path each op takes here in which situation, and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from normkit.kernels import cpu
from normkit.ops.path import Situation
from normkit.ops.registration import KINDS
from normkit.spec import FUSED_OPS, NORMS


@dataclass(frozen=True, kw_only=True)
class PathRow:
    """One line of ``normkit info``: which path an op takes in a situation, and why."""

    op: str
    situation: str
    path: str
    reason: str


def describe_paths() -> list[PathRow]:
    """Say for each op which path it takes here in which situation, and why.

    A library that would have to be compiled first counts as not there.

    Example:
        >>> sorted({row.op for row in describe_paths()})[-2:]
        ['rms_norm', 'scale_norm']
    """
    ops = sorted({entry.op for entry in NORMS.values() if entry.op} | set(FUSED_OPS))
    return [
        PathRow(op=op, situation=where.value, path=path, reason=reason)
        for op in ops
        for where, path, reason in _rows(op)
    ]


def _rows(op: str) -> Iterator[tuple[Situation, str, str]]:
    yield (
        Situation.FUNCTIONAL,
        "reference formula",
        "differentiable at any order by vmap, grad and jvp",
    )
    yield (
        Situation.COMPILED,
        f"custom op normkit::{op}",
        "one node with a schema, a fake and a backward op in the graph; inside, as below",
    )
    isa, missing = cpu.status().isa, cpu.status().reason
    if not KINDS[op].has_cpu_kernel():
        isa, missing = None, "this op has no compiled kernel"
    if isa is None:
        yield Situation.GRADIENT, "torch operations, backward recomputed from x", missing
        yield Situation.NO_GRADIENT, "torch operations", missing
    else:
        elsewhere = "on the CPU; torch operations elsewhere"
        kernel = f"compiled kernel ({isa})"
        yield Situation.GRADIENT, f"{kernel}, backward recomputed from x", elsewhere
        yield Situation.NO_GRADIENT, kernel, elsewhere
