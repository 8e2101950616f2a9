"""Timing: interleaved samples, quantiles, ratios, and what a loaded machine looks like.

No test here looks at a real clock: time is what the clock of the test says.
"""

from __future__ import annotations

import dataclasses
import gc
import itertools
import statistics

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from normkit.errors import OptionError
from normkit.measure import time_load
from normkit.measure.time import Function, Rounds, Timing, cpu_clock, quantile, time_interleaved
from normkit.measure.time_load import BUSY, Load, Moment, busy_seconds, load
from normkit.measure.time_ratio import Ratio, coin, time_ratio

FEW = Rounds(budget_s=1e-9, patience=1e18, least=4, most=9, warm_us=3.0, sample_us=20.0)


class FakeClock:
    """Each call of a function takes what the function returns; remembers every request."""

    def __init__(self) -> None:
        self.asked: list[tuple[Function, int]] = []

    def __call__(self, function: Function, calls: int) -> float:
        self.asked.append((function, calls))
        return sum(float(function()) for _ in range(calls))  # type: ignore[arg-type]


def test_a_sample_is_as_many_calls_as_last() -> None:
    """Twenty microseconds are 20 calls of one, 4 of five, and 1 of a hundred."""
    functions = {"one": lambda: 1.0, "five": lambda: 5.0, "hundred": lambda: 100.0}
    clock = FakeClock()
    found = time_interleaved(functions, rounds=FEW, clock=clock)
    assert {name: timing.times_us for name, timing in found.items()} == {
        "one": (1.0,) * 4,
        "five": (5.0,) * 4,
        "hundred": (100.0,) * 4,
    }
    most = {
        name: max(calls for f, calls in clock.asked if f is function)
        for name, function in functions.items()
    }
    assert most == {"one": 20, "five": 4, "hundred": 1}


def test_rounds_are_interleaved() -> None:
    """Every function has one sample in each round, in orders that differ."""
    functions = {name: lambda: 20.0 for name in "abc"}
    names = {id(function): name for name, function in functions.items()}
    clock = FakeClock()
    plan = dataclasses.replace(FEW, least=8)
    time_interleaved(functions, rounds=plan, clock=clock)
    order = [names[id(function)] for function, _ in clock.asked]
    rounds = order[-8 * 3 * 2 :]  # a warm call and a sample of each
    orders = [tuple(dict.fromkeys(rounds[i : i + 6])) for i in range(0, len(rounds), 6)]
    assert all(sorted(one) == ["a", "b", "c"] for one in orders)
    assert len(set(orders)) > 1


def test_each_sample_is_warmed_up() -> None:
    """Before every sample the function runs alone until the warm time is over."""
    clock = FakeClock()
    plan = dataclasses.replace(FEW, warm_us=25.0)
    time_interleaved({"ten": lambda: 10.0}, rounds=plan, clock=clock)
    assert [calls for _, calls in clock.asked][-4 * 4 :] == [1, 1, 1, 2] * 4


@pytest.mark.parametrize(("budget_s", "rounds"), [(1e-9, 4), (1e9, 9)], ids=["at least", "at most"])
def test_number_of_rounds(budget_s: float, rounds: int) -> None:
    """The budget decides between the least and the most."""
    plan = dataclasses.replace(FEW, budget_s=budget_s)
    found = time_interleaved({"f": lambda: 1.0}, rounds=plan, clock=FakeClock())
    assert len(found["f"].times_us) == rounds


def test_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where two rounds took many budgets, there is no third."""
    ticks = itertools.count(0.0, 10.0)
    monkeypatch.setattr("normkit.measure.time.time.perf_counter", lambda: next(ticks))
    plan = dataclasses.replace(FEW, budget_s=1.0, patience=4.0)
    found = time_interleaved({"f": lambda: 1.0}, rounds=plan, clock=FakeClock())
    assert len(found["f"].times_us) == 2


def test_the_garbage_collector_rests_and_wakes() -> None:
    """Also when a function fails."""
    seen = []
    time_interleaved({"f": lambda: seen.append(gc.isenabled()) or 1.0}, rounds=FEW)
    assert set(seen) == {False}
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError):
        time_interleaved({"f": lambda: 1 / 0})
    assert gc.isenabled()


def test_no_functions() -> None:
    """A sentence."""
    with pytest.raises(OptionError) as caught:
        time_interleaved({})
    assert str(caught.value) == "time_interleaved: functions must have an entry; it is empty."


def test_the_real_clock_counts_calls() -> None:
    """It calls as often as it is told, and time does not run backwards."""
    calls: list[None] = []
    assert cpu_clock(lambda: calls.append(None), 7) >= 0
    assert len(calls) == 7


@given(st.lists(st.integers(0, 10**6).map(float), min_size=1, max_size=40))
def test_quantiles(values: list[float]) -> None:
    """In order, within the values, the middle one the median."""
    timing = Timing(times_us=tuple(values))
    assert min(values) <= timing.p20 <= timing.p50 <= timing.p80 <= max(values)
    assert timing.p50 == pytest.approx(statistics.median(values), abs=1e-9)
    assert quantile(values, 0.2) == timing.p20


def timing(*times_us: float) -> Timing:
    """Short."""
    return Timing(times_us=times_us)


ONES = timing(*(1.0,) * 10)


@pytest.mark.parametrize(
    ("others", "differs"),
    [
        ((2.0,) * 10, True),
        ((0.5,) * 10, True),
        ((1.01,) * 10, True),  # a small difference in every round is one
        ((1.0,) * 10, False),
        ((2.0,) * 8 + (0.9,) * 2, False),  # 8 of 10: a coin does that one time in nine
        ((2.0,) * 9 + (0.9,), True),
        ((1.3, 0.8) * 5, False),  # the spread holds 1
    ],
)
def test_a_difference_is_larger_than_the_spread(others: tuple[float, ...], differs: bool) -> None:
    """Both conditions, on ten rounds."""
    assert time_ratio(timing(*others), ONES).differs is differs


def test_many_rounds_do_not_make_a_difference_of_noise() -> None:
    """70 of 100 rounds are beyond chance, and still within the spread."""
    assert coin(70, 100) < 0.001
    assert not time_ratio(timing(*(1.1,) * 70 + (0.9,) * 30), timing(*(1.0,) * 100)).differs


def test_too_few_rounds_show_nothing() -> None:
    """Five rounds that agree could be chance; six cannot."""
    assert not time_ratio(timing(*(2.0,) * 5), timing(*(1.0,) * 5)).differs
    assert time_ratio(timing(*(2.0,) * 6), timing(*(1.0,) * 6)).differs


def test_ratios_are_of_the_same_round() -> None:
    """A machine that slows down for both shows in neither."""
    slow = (1.0, 10.0, 3.0, 7.0, 2.0, 5.0)
    found = time_ratio(timing(*(3 * t for t in slow)), timing(*slow))
    assert (found.p20, found.p50, found.p80) == pytest.approx((3.0, 3.0, 3.0))
    assert str(found) == "3.00x"


def test_other_rounds_are_refused() -> None:
    """A sentence."""
    with pytest.raises(OptionError) as caught:
        time_ratio(ONES, timing(1.0))
    assert str(caught.value) == (
        "time_ratio: both timings must come from the same rounds; they have 10 and 1."
    )


def test_no_difference_is_a_word() -> None:
    """The number would be read as one."""
    assert str(Ratio(p20=0.9, p50=1.1, p80=1.2, differs=False)) == "no difference"


IDLE = Load(cores=2, waiting=0.0, others=0.0, copy_start_us=100.0, copy_end_us=105.0)


def test_an_idle_machine_has_no_signs() -> None:
    """Small drift is none."""
    assert IDLE.signs == ()


@pytest.mark.parametrize(
    ("change", "sign"),
    [
        ({"others": 0.4}, "other processes took 40% of the processor"),
        ({"others": None, "waiting": 1.5}, "the load average was 1.50 before the start"),
        ({"copy_end_us": 130.0}, "a copy of 16 MiB took 100 us at the start and 130 us at the end"),
        ({"copy_end_us": 60.0}, "a copy of 16 MiB took 100 us at the start and 60 us at the end"),
    ],
)
def test_signs_of_load(change: dict[str, float | None], sign: str) -> None:
    """Each sign by itself."""
    assert dataclasses.replace(IDLE, **change).signs == (sign,)  # type: ignore[arg-type]


def test_load_average_is_for_systems_that_tell_nothing_better() -> None:
    """After a run of ours it is high for a minute, without anybody else."""
    assert dataclasses.replace(IDLE, waiting=1.5, others=0.0).signs == ()


def test_others_are_all_but_us(monkeypatch: pytest.MonkeyPatch) -> None:
    """Busy seconds less our own, of all that there were."""
    monkeypatch.setattr(time_load.os, "cpu_count", lambda: 4)
    start = Moment(waiting=0.1, copy=ONES, busy_s=100.0, own_s=10.0)
    end = Moment(waiting=2.0, copy=timing(2.0), busy_s=116.0, own_s=22.0)
    found = load(start, end, elapsed_s=10.0)
    assert found.others == pytest.approx((16 - 12) / 40)
    assert (found.waiting, found.copy_start_us, found.copy_end_us) == (0.1, 1.0, 2.0)
    assert not found.others > BUSY


def test_busy_seconds_leave_idle_time_out() -> None:
    """Neither idle nor waiting for a disk."""
    assert busy_seconds("cpu  10 20 30 9999 9999 1 2 3 4 4\ncpu0 1 1", 10) == 6.6


def test_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the system does not tell is None."""
    monkeypatch.setattr(time_load, "COPY_ELEMENTS", 64)
    monkeypatch.setattr(time_load, "STAT", time_load.Path("no such file"))
    monkeypatch.delattr(time_load.os, "getloadavg")
    found = time_load.moment()
    assert (found.busy_s, found.waiting) == (None, None)
    assert load(found, found, elapsed_s=1.0).others is None
    assert torch.get_num_threads() >= 1
