"""What the kernels are meant to reach, as ratios of one run: a floor that holds, and a goal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from normkit.benchmark.entries import IMAGES, OPS, TOKENS
from normkit.benchmark.entry import Mode, Shape
from normkit.benchmark.options import DTYPES, ONE_TOKEN, Cell
from normkit.benchmark.peers import OURS
from normkit.benchmark.task import shape_words

LONG_ROW: Shape = (1, 262144)
BEYOND_CACHES: Shape = (65536, 4096)
OTHER_SHAPES: tuple[Shape, ...] = ((1024, 768), (8192, 4096), (64, 768), (4096, 257))
Than = Literal["torch", "compile", "limit", "1 thread"]
Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Target:
    """A row of the table and what its number should be.

    Attributes:
        than: against whom: another implementation, the memory limit (then the number is the
            fraction of it), or normkit itself on one thread.
    """

    op: str
    mode: Mode
    dtype: str
    shape: Shape
    than: Than
    floor: float
    goal: float

    @property
    def words(self) -> str:
        """``rms_norm forward float32 4096x1024 vs torch``."""
        return f"{self.op} {self.mode} {self.dtype} {shape_words(self.shape)} vs {self.than}"


def _targets() -> Iterator[Target]:
    forward: Mode = "forward"
    backward: Mode = "forward_backward"
    f32, bf16 = "float32", "bfloat16"
    ratios: list[tuple[str, Mode, str, float, float]] = [
        ("rms_norm", forward, f32, 3, 4),
        ("rms_norm", forward, bf16, 8, 14),
        ("rms_norm", backward, f32, 5, 9),
        ("rms_norm", backward, bf16, 10, 18),
        ("layer_norm", forward, f32, 1, 1.3),
        ("layer_norm", forward, bf16, 2, 4),
        ("layer_norm", backward, f32, 1.2, 1.7),
        ("layer_norm", backward, bf16, 2, 3.5),
        ("add_rms_norm", forward, f32, 3, 4),
        ("add_rms_norm", backward, f32, 5, 9),
        ("channel_layer_norm", forward, f32, 1.5, 4),
        ("channel_layer_norm", backward, f32, 1.5, 4),
    ]
    for op, mode, dtype, floor, goal in ratios:
        shape = IMAGES if op == "channel_layer_norm" else TOKENS
        yield _target(op, mode, dtype, shape, "torch", floor, goal)
        compiled = (1.0, 1.3) if mode == forward else (1.5, 2.5)
        yield _target(op, mode, dtype, shape, "compile", *compiled)
    yield _target("layer_norm", forward, f32, LONG_ROW, "1 thread", 1.5, 1.9)
    yield _target("rms_norm", "module", f32, ONE_TOKEN, "torch", 1.5, 3)
    yield _target("layer_norm", "module", f32, ONE_TOKEN, "torch", 0.9, 1.5)
    for op in ("rms_norm", "layer_norm"):
        for shape, dtype in ((TOKENS, f32), (BEYOND_CACHES, bf16)):
            yield _target(op, forward, dtype, shape, "limit", 0.7, 0.9)
            yield _target(op, backward, dtype, shape, "limit", 0.5, 0.75)
        for shape in OTHER_SHAPES:
            for dtype in (f32, bf16):
                for mode in (forward, backward):
                    yield _target(op, mode, dtype, shape, "torch", 0.9, 1.3)


def _target(
    op: str, mode: Mode, dtype: str, shape: Shape, than: Than, floor: float, goal: float
) -> Target:
    return Target(op=op, mode=mode, dtype=dtype, shape=shape, than=than, floor=floor, goal=goal)


TARGETS: tuple[Target, ...] = tuple(_targets())


def target_cells(threads: int) -> list[Cell]:
    """The rows that the targets speak of, each against those whom they name."""
    needed: dict[tuple[str, str, str, Shape, int], dict[str, None]] = {}
    for target in TARGETS:
        counts = {1, threads} if target.than == "1 thread" else {threads}
        for count in sorted(counts):
            key = (target.op, target.mode, target.dtype, target.shape, count)
            peers = needed.setdefault(key, {})
            if target.than in ("torch", "compile"):
                peers[target.than] = None
    return [
        Cell(
            op=OPS[op],
            mode=mode,  # type: ignore[arg-type]
            dtype=DTYPES[dtype],
            shape=shape,
            threads=count,
            against=tuple(peers),
        )
        for (op, mode, dtype, shape, count), peers in needed.items()
    ]


def measured(target: Target, rows: Iterable[Row]) -> float | None:
    """The number of a target in the rows of a report; None where no row has it.

    Where there are rows for several numbers of threads, those with the most count.
    """
    same = [row for row in rows if _is(target, row)]
    ours = sorted((r for r in same if r["implementation"] == OURS), key=lambda r: -r["threads"])
    if not ours:
        return None
    most = ours[0]["threads"]
    if target.than == "limit":
        fraction: float | None = ours[0]["fraction_of_limit"]
        return fraction
    if target.than == "1 thread":
        one = [r["time_us_p50"] for r in ours if r["threads"] == 1]
        return one[0] / ours[0]["time_us_p50"] if one and most > 1 else None
    ratios = [
        r["ours"]["p50"]
        for r in same
        if r["implementation"] == target.than and r["threads"] == most
    ]
    return ratios[0] if ratios else None


def _is(target: Target, row: Row) -> bool:
    named = (row["op"], row["mode"], row["dtype"], row["shape"])
    return named == (target.op, target.mode, target.dtype, shape_words(target.shape))
