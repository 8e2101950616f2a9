"""Run the table: bind every implementation, time them together, then measure their errors."""

from __future__ import annotations

import datetime
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext

import torch

from normkit.benchmark.accuracy import ErrorRow, errors
from normkit.benchmark.entry import Mode, moved_bytes
from normkit.benchmark.machine import machine_facts, versions
from normkit.benchmark.options import Cell, missing_peers
from normkit.benchmark.peers import OURS, PEERS, TORCH, RefusedError
from normkit.benchmark.report import Report, TimeRow
from normkit.benchmark.task import (
    Bound,
    Task,
    dtype_name,
    make_task,
    output_gradients,
    shape_words,
)
from normkit.measure.saved import saved_bytes
from normkit.measure.time import Function, Rounds, Timing, cpu_clock, cuda_clock, time_interleaved
from normkit.measure.time_load import load, moment
from normkit.measure.time_ratio import time_ratio

TOTAL_S, MOST_S = 45.0, 3.0  # of timing in all, and for one cell
COPY = "copy"
Tell = Callable[[str], None]


class Run:
    """Collects rows, cell by cell.

    Args:
        device: where tensors live.
        rounds: how much is measured for each cell.
        tell: hears what is being done.
    """

    def __init__(self, device: str, rounds: Rounds, tell: Tell) -> None:
        self.device, self.rounds, self.tell = device, rounds, tell
        self.times: list[TimeRow] = []
        self.errors: list[ErrorRow] = []
        self.refused: dict[str, None] = {}

    def time(self, cell: Cell) -> None:
        """Time every implementation of a cell in shared rounds."""
        self.tell(cell.words)
        task = make_task(
            cell.op, cell.mode, cell.shape, cell.dtype, threads=cell.threads, device=self.device
        )
        train = cell.mode == "forward_backward"
        with _threads(cell.threads), nullcontext() if train else torch.no_grad():
            bound = dict(self._bound(task, cell.against))
            functions = {name: _function(task, b) for name, b in bound.items()}
            x = task.inputs["x"].detach()
            functions[COPY] = x.clone
            clock = cuda_clock if self.device == "cuda" else cpu_clock
            timings = time_interleaved(functions, rounds=self.rounds, clock=clock)
            saved = {name: _saved(task, b) for name, b in bound.items()} if train else {}
        rows = [time_row(cell, self.device, name, timings, saved.get(name)) for name in bound]
        self.times += rows

    def measure_errors(self, cells: Sequence[Cell]) -> None:
        """Errors of every implementation, once for each op and dtype.

        Forward and backward together where that was timed and the implementation has both.
        """
        seen: dict[tuple[str, torch.dtype, Mode], Cell] = {}
        for cell in sorted(cells, key=lambda cell: cell.mode != "forward_backward"):
            mode: Mode = "forward" if cell.mode == "module" else cell.mode
            seen.setdefault((cell.op.name, cell.dtype, mode), cell)
        done: set[tuple[str, torch.dtype, str]] = set()
        for (op, dtype, mode), cell in seen.items():
            if dtype == torch.float64:  # nothing here is wider
                continue
            self.tell(f"errors of {op} {mode} {dtype_name(dtype)}")
            for name in self._installed(cell.against):
                if (op, dtype, name) in done:
                    continue
                try:
                    found = errors(cell.op, cell.shape, dtype, mode, PEERS[name])
                except RefusedError as refusal:
                    self._refuse(name, f"{op} {mode} {dtype_name(dtype)}", refusal)
                else:
                    self.errors += found
                    done |= {(op, dtype, name)} if found else set()

    def _bound(self, task: Task, against: Sequence[str]) -> Iterator[tuple[str, Bound]]:
        for name in self._installed(against):
            try:
                bound = PEERS[name].bind(task)
                if bound is not None:
                    bound.forward()  # what cannot run says so here
                    yield name, bound
            except RefusedError as refusal:
                self._refuse(name, f"{task.op.name} {task.mode} {dtype_name(task.dtype)}", refusal)

    def _installed(self, against: Sequence[str]) -> list[str]:
        return [name for name in (OURS, *against) if PEERS[name].missing() is None]

    def _refuse(self, name: str, what: str, refusal: RefusedError) -> None:
        self.refused[f"{name} cannot run {what}: {refusal}"] = None


def run(
    cells: Sequence[Cell],
    *,
    device: str = "cpu",
    rounds: Rounds | None = None,
    tell: Tell = lambda text: None,
) -> Report:
    """Run every cell, and look at the machine before and after.

    Example:
        >>> from normkit.benchmark.options import Words, cells
        >>> words = Words(op="rms_norm", shape="2x4", dtype="float32", mode="forward",
        ...               against="torch", threads="1")
        >>> report = run(cells(words), rounds=Rounds(budget_s=0.01, least=2, warm_us=0))
        >>> [row.implementation for row in report.times]
        ['normkit', 'torch']
    """
    date = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
    against = list(dict.fromkeys(name for cell in cells for name in cell.against))
    for text in (missing := missing_peers(against)):
        tell(text)
    budget = Rounds(budget_s=min(MOST_S, TOTAL_S / max(len(cells), 1)))
    found = Run(device, rounds or budget, tell)
    start, began = moment(), time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # peers warn of their own deprecations
        for cell in cells:
            found.time(cell)
        elapsed_s, end = time.perf_counter() - began, moment()
        with _threads(max((cell.threads for cell in cells), default=1)):
            found.measure_errors(cells)
    return Report(
        date=date,
        machine=machine_facts(device),
        versions=versions([name for name in (OURS, *against) if PEERS[name].missing() is None]),
        load=load(start, end, elapsed_s=elapsed_s),
        times=found.times,
        errors=found.errors,
        missing=missing,
        refused=list(found.refused),
    )


def time_row(
    cell: Cell, device: str, name: str, timings: dict[str, Timing], saved: int | None
) -> TimeRow:
    """Put the row of one implementation together."""
    timing, itemsize = timings[name], cell.dtype.itemsize
    moved = moved_bytes(cell.op, cell.mode, cell.shape, itemsize)
    limit = None if cell.op.compute_bound else _limit(cell, timings[COPY], moved)
    torch_too = TORCH in timings and name != TORCH
    return TimeRow(
        op=cell.op.name,
        implementation=name,
        mode=cell.mode,
        dtype=dtype_name(cell.dtype),
        shape=shape_words(cell.shape),
        threads=cell.threads,
        device=device,
        rounds=len(timing.times_us),
        time_us_p20=timing.p20,
        time_us_p50=timing.p50,
        time_us_p80=timing.p80,
        moved_bytes=moved,
        limit_us=None if limit is None else limit.p50,
        fraction_of_limit=None if limit is None else time_ratio(limit, timing).p50,
        to_torch=time_ratio(timings[TORCH], timing) if torch_too else None,
        ours=time_ratio(timing, timings[OURS]) if name != OURS else None,
        saved_bytes=saved,
    )


def _limit(cell: Cell, copy: Timing, moved: int) -> Timing:
    """What a copy would need for as many bytes as must move: a copy reads x and writes it once."""
    copied = 2 * cell.dtype.itemsize
    for size in cell.shape:
        copied *= size
    return Timing(times_us=tuple(t * moved / copied for t in copy.times_us))


def _function(task: Task, bound: Bound) -> Function:
    if task.mode != "forward_backward":
        return bound.call
    return bound.step(output_gradients(task, bound.forward()))


def _saved(task: Task, bound: Bound) -> int:
    found = saved_bytes(lambda *_: bound.forward(), *task.inputs.values())
    return found.inputs + found.new


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
