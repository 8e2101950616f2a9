"""Which arm trained best, and whether the seeds tell it from the next one."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from normkit.lab.judge import Place, RunSummary, axis_values
from normkit.lab.measures import MEASURES
from normkit.lab.verdict import Interval, paired_interval
from normkit.lab.words import count, place_words, range_words, signed

ARM = ("norm", "placement", "lr")
GROUP = ("depth", "batch_size", "dtype")


@dataclass(frozen=True)
class Standing:
    """One arm of a group: its mean over seeds, and how far it is behind the best.

    Attributes:
        arm: norm, placement and, where it varies, the learning rate.
        values: the measure by seed.
        behind: of the difference to the best arm, paired by seed; None for the best itself.
    """

    arm: Place
    values: Mapping[int, float]
    diverged: int
    behind: Interval | None

    @property
    def mean(self) -> float:
        """Mean over seeds."""
        return statistics.fmean(self.values.values())


@dataclass(frozen=True)
class Ranking:
    """All arms that share depth, batch size and dtype, the best first."""

    group: Place
    measure: str
    standings: Sequence[Standing]

    @property
    def sentence(self) -> str:
        """The best arm, and whether the next one is told apart from it."""
        best = self.standings[0]
        where = f" ({place_words(self.group)})" if self.group else ""
        seeds = count(len(best.values), "seed")
        title = MEASURES[self.measure].title
        text = f"Best here{where}: {place_words(best.arm)}, {title} {best.mean:.3f} over {seeds}"
        return f"{text}{_next_words(self.standings[1])}." if self.standings[1:] else f"{text}."


def rank(runs: Sequence[RunSummary], measure: str) -> list[Ranking]:
    """Rank the arms of every group by the mean of a measure; smaller is better."""
    values = axis_values(runs)
    arm_axes = [axis for axis in ARM if axis != "lr" or len(values["lr"]) > 1]
    group_axes = [axis for axis in GROUP if len(values[axis]) > 1]
    groups: dict[tuple[object, ...], list[RunSummary]] = {}
    for run in runs:
        if measure in run.measures:
            groups.setdefault(_key(run, group_axes), []).append(run)
    return [
        Ranking(_place(members[0], group_axes), measure, _standings(members, arm_axes, measure))
        for members in groups.values()
    ]


def _standings(runs: Sequence[RunSummary], arm_axes: Sequence[str], measure: str) -> list[Standing]:
    arms: dict[tuple[object, ...], list[RunSummary]] = {}
    for run in runs:
        arms.setdefault(_key(run, arm_axes), []).append(run)
    by_mean = sorted(
        arms.values(), key=lambda members: statistics.fmean(r.measures[measure] for r in members)
    )
    best = {run.config.seed: run.measures[measure] for run in by_mean[0]}
    standings = []
    for members in by_mean:
        values = {run.config.seed: run.measures[measure] for run in members}
        gaps = [values[seed] - best[seed] for seed in sorted(values.keys() & best.keys())]
        behind = paired_interval(gaps) if gaps and members is not by_mean[0] else None
        diverged = sum(run.status == "diverged" for run in members)
        standings.append(Standing(_place(members[0], arm_axes), values, diverged, behind))
    return standings


def _next_words(second: Standing) -> str:
    name = place_words(second.arm)
    gap = second.behind
    if gap is None:
        return f"; next is {name}, with no seed in common"
    text = f"; next is {name}, {signed(gap.mean)} behind"
    if gap.count == 1:
        return f"{text}, and one seed does not tell them apart"
    apart = "told apart" if gap.low > 0 else "not told apart"
    return f"{text} {range_words(gap.low, gap.high)}, {apart} by {count(gap.count, 'seed')}"


def _key(run: RunSummary, axes: Sequence[str]) -> tuple[object, ...]:
    return tuple(getattr(run.config, axis) for axis in axes)


def _place(run: RunSummary, axes: Sequence[str]) -> Place:
    return {axis: getattr(run.config, axis) for axis in axes}
