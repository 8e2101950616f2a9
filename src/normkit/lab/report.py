"""A comparison in the terminal: verdicts first, then who trained best, then the table."""

from __future__ import annotations

import io
import statistics
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from normkit.lab.config import AXES
from normkit.lab.judge import Place, RunSummary, Verdict
from normkit.lab.measures import MEASURES
from normkit.lab.words import axis_name, axis_value, place_words

if TYPE_CHECKING:
    from normkit.lab.result import Comparison

WIDTH = 100  # of the text that print() shows
STYLES = {"holds": "bold green", "does not hold here": "bold red", "undecided": "bold yellow"}


def as_text(found: Comparison) -> str:
    """The report without colours."""
    console = Console(file=io.StringIO(), width=WIDTH, no_color=True, color_system=None)
    with console.capture() as capture:
        console.print(render(found))
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def render(found: Comparison) -> RenderableType:
    """The report for a terminal."""
    parts: list[RenderableType] = [Text(found.recipe.title, style="bold"), Text()]
    parts += [line for verdict in found.verdicts for line in _verdict(verdict)]
    parts += [Text(ranking.sentence) for ranking in found.rankings]
    parts += [Text(), _table(found), Text()]
    parts += [
        Text(f"FAILED {outcome.run}: {outcome.error}", style="bold red") for outcome in found.failed
    ]
    parts.append(Text(f"Page: {found.page}", overflow="fold"))
    return Group(*parts)


def by_configuration(runs: Sequence[RunSummary]) -> list[tuple[Place, list[RunSummary]]]:
    """Runs that differ in the seed alone, together, with what tells them from the others."""
    axes = varied_axes(runs)
    groups: dict[tuple[object, ...], list[RunSummary]] = {}
    for run in runs:
        groups.setdefault(tuple(getattr(run.config, axis) for axis in axes), []).append(run)
    return [
        ({axis: getattr(members[0].config, axis) for axis in axes}, members)
        for members in groups.values()
    ]


def varied_axes(runs: Sequence[RunSummary]) -> list[str]:
    """The axes on which runs differ; norm and placement are always told."""
    always = ("norm", "placement")
    return [
        axis
        for axis in AXES
        if axis in always
        or (axis != "seed" and len({getattr(run.config, axis) for run in runs}) > 1)
    ]


def mean(runs: Iterable[RunSummary], name: str) -> float | None:
    """Mean of a measure over the runs that have it."""
    values = [run.measures[name] for run in runs if name in run.measures]
    return statistics.fmean(values) if values else None


def _verdict(verdict: Verdict) -> list[RenderableType]:
    where = f" ({place_words(verdict.place)})" if verdict.place else ""
    head = Text.assemble(
        (verdict.decision.upper(), STYLES[verdict.decision]), f": {verdict.claim}{where}"
    )
    rest = Text(f"{verdict.sentence}\nSource: {verdict.source}.")
    grid = Table.grid(padding=(0, 0, 1, 4))
    grid.add_row("", rest)
    return [head, grid]


def _table(found: Comparison) -> Table:
    """One row for each configuration: seeds, and the mean of each measure."""
    names = [name for name in MEASURES if any(name in run.measures for run in found.runs)]
    axes = varied_axes(found.runs)
    table = Table(box=None, pad_edge=False, header_style="bold", caption_justify="left")
    for axis in axes:
        table.add_column(axis_name(axis))
    for title in ("seeds", "diverged", *(MEASURES[name].short for name in names)):
        table.add_column(title, justify="right")
    for place, runs in by_configuration(found.runs):
        cells = [axis_value(axis, value) for axis, value in place.items()]
        diverged = sum(run.status == "diverged" for run in runs)
        values = [cell(name, mean(runs, name)) for name in names]
        table.add_row(*cells, str(len(runs)), str(diverged), *values)
    return table


def cell(name: str, value: float | None) -> str:
    """A measure as a table shows it."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if name == "tokens_per_s" else f"{value:.4f}"
