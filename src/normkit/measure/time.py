"""How long functions take, side by side: warmed up, interleaved, in quantiles."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import torch

from normkit.errors import OptionError, sentence

Function = Callable[[], object]

LONG = 50.0  # a call that lasts so many times the warm time warms itself


class Clock(Protocol):
    """Something that times a number of calls of a function."""

    def __call__(self, function: Function, calls: int) -> float:
        """Microseconds that ``calls`` calls of ``function`` took together."""


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Times of one function, one for each round, in microseconds a call.

    Example:
        >>> Timing(times_us=(3.0, 1.0, 2.0)).p50
        2.0
    """

    times_us: tuple[float, ...]

    @property
    def p20(self) -> float:
        """A fifth of the rounds were faster."""
        return quantile(self.times_us, 0.2)

    @property
    def p50(self) -> float:
        """The median."""
        return quantile(self.times_us, 0.5)

    @property
    def p80(self) -> float:
        """A fifth of the rounds were slower."""
        return quantile(self.times_us, 0.8)


@dataclass(frozen=True, kw_only=True)
class Rounds:
    """How much is measured.

    Attributes:
        budget_s: after this time no further round starts, once there are ``least``.
        least, most: numbers of rounds.
        patience: after so many budgets the rounds end, however few there are; at least 2.
        warm_us: before each sample its function runs untimed for this long, and at least once:
            threads of the function before it have gone to sleep, its own are awake. A call of
            fifty times that length needs none.
        sample_us: a sample is as many calls as take this long, so that the clock's own cost and
            grain do not show in functions of a few microseconds.
        seed: of the order inside each round.
    """

    budget_s: float = 2.0
    least: int = 7
    most: int = 60
    patience: float = 2.0
    warm_us: float = 1000.0
    sample_us: float = 200.0
    seed: int = 0


def quantile(values: Sequence[float], part: float) -> float:
    """The value below which ``part`` of the values lie, between neighbours if need be.

    Example:
        >>> quantile([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 0.2)
        2.0
    """
    return torch.tensor(values, dtype=torch.float64).quantile(part).item()


def cpu_clock(function: Function, calls: int) -> float:
    """Wall time of calls on the CPU."""
    start = time.perf_counter_ns()
    for _ in range(calls):
        function()
    return (time.perf_counter_ns() - start) / 1000


def cuda_clock(function: Function, calls: int) -> float:
    """Time between two events on the current CUDA stream, so what the device did."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    start.record()
    for _ in range(calls):
        function()
    end.record()
    torch.cuda.synchronize()
    time_ms: float = start.elapsed_time(end)
    return time_ms * 1000


def time_interleaved(
    functions: Mapping[str, Function],
    *,
    rounds: Rounds | None = None,
    clock: Clock = cpu_clock,
) -> dict[str, Timing]:
    """Time several functions in one run, in rounds.

    Each round takes one sample of every function, in an order that is drawn anew, so that what the
    machine does meanwhile (another process, a lower clock rate, a heap that has grown) meets all of
    them alike: round r of one function is to be compared with round r of another. The garbage
    collector rests; what a function returns is freed inside its sample, as it is in use.

    Raises:
        OptionError: there are no functions.

    Example:
        >>> found = time_interleaved({"add": lambda: 1 + 1}, rounds=Rounds(budget_s=0.01))
        >>> found["add"].p20 <= found["add"].p50 <= found["add"].p80
        True
    """
    if not functions:
        rule = "functions must have an entry"
        raise OptionError(sentence("time_interleaved", rule, "it is empty"))
    plan = rounds or Rounds()
    found: dict[str, list[float]] = {name: [] for name in functions}
    draw, names = random.Random(plan.seed), list(functions)
    with _no_garbage_collection():
        once_us = {name: _once_us(function, clock, plan) for name, function in functions.items()}
        start = time.perf_counter()
        for number in range(plan.most):
            if _enough(number, time.perf_counter() - start, plan):
                break
            for name in draw.sample(names, len(names)):
                if once_us[name] < LONG * plan.warm_us:
                    _warm(functions[name], clock, plan)
                calls = max(1, round(plan.sample_us / once_us[name]))
                found[name].append(clock(functions[name], calls) / calls)
    return {name: Timing(times_us=tuple(times)) for name, times in found.items()}


def _enough(number: int, spent_s: float, plan: Rounds) -> bool:
    if number >= plan.least:
        return spent_s > plan.budget_s
    return number >= 2 and spent_s > plan.patience * plan.budget_s


def _warm(function: Function, clock: Clock, plan: Rounds) -> None:
    spent = 0.0
    while True:
        spent += clock(function, 1)
        if spent >= plan.warm_us:
            return


def _once_us(function: Function, clock: Clock, plan: Rounds) -> float:
    """About how long one call takes; the first calls, which may compile, are lost."""
    once, most_us = clock(function, 1), 1e6 * plan.budget_s / 10
    for _ in range(5):
        once = min(once, clock(function, 1))
        if once > most_us:  # slow enough to be warm
            break
    return max(once, 0.01)


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    was = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
