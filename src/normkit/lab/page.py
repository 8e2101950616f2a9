"""The page of a comparison: verdicts, loss curves, the recipe's charts, tables, configuration."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from normkit.lab.charts import CURVES, Charts, Row
from normkit.lab.judge import RunSummary, Verdict
from normkit.lab.measures import LOSS_UNIT, MEASURES
from normkit.lab.ranking import Ranking
from normkit.lab.report import by_configuration, mean, varied_axes
from normkit.lab.words import axis_name, axis_value, place_words
from normkit.pages import (
    Chart,
    Details,
    Page,
    Reference,
    Table,
    VerdictCard,
    write_page,
    write_pictures,
)

if TYPE_CHECKING:
    from normkit.lab.result import Comparison


def write(found: Comparison) -> None:
    """Write ``page.html`` and ``pictures/`` into the folder of the comparison."""
    page = build(found)
    write_page(page, found.page)
    write_pictures(page, found.out / "pictures")


def build(found: Comparison) -> Page:
    """Put the page together from the records on disk."""
    return Page(
        title=found.recipe.title,
        lead=" ".join([found.recipe.question, *found.recipe.notes]),
        verdicts=[*map(_card, found.verdicts), *map(_ranking_card, found.rankings)],
        charts=_charts(found) if found.runs else [],
        tables=_tables(found) if found.runs else [],
        details=_details(found),
    )


def _card(verdict: Verdict) -> VerdictCard:
    where = f" ({place_words(verdict.place)})" if verdict.place else ""
    details: dict[str, object] = {
        f"seed {seed}": f"{value:+.4f}" for seed, value in verdict.differences.items()
    }
    if verdict.interval and verdict.interval.count > 1:
        details["standard deviation between seeds"] = f"{verdict.interval.spread:.4f}"
    return VerdictCard(
        claim=f"{verdict.claim}{where}",
        source=verdict.source,
        verdict=verdict.decision,
        sentence=verdict.sentence,
        details=details,
    )


def _ranking_card(ranking: Ranking) -> VerdictCard:
    where = f" at {place_words(ranking.group)}" if ranking.group else ""
    details: dict[str, object] = {
        place_words(standing.arm): f"{standing.mean:.4f}" for standing in ranking.standings
    }
    return VerdictCard(
        claim=f"What trained best{where}?",
        source="the runs of this page",
        verdict="measured",
        sentence=ranking.sentence,
        details=details,
    )


def _charts(found: Comparison) -> list[Chart]:
    records: dict[str, list[Row]] = {run.config.id: [] for run in found.runs}
    for row in found.records():
        records[row["run"]].append(row)
    references = [
        Reference(value=found.text.unigram_entropy, label="unigram entropy"),
        Reference(value=found.text.bigram_entropy, label="bigram entropy"),
    ]
    charts = Charts(found.runs, records, references)
    drawn = [charts.curves(split) for split in CURVES]
    drawn += [charts.against(chart) for chart in found.recipe.charts]
    return [chart for chart in drawn if chart is not None]


def _tables(found: Comparison) -> list[Table]:
    axes = varied_axes(found.runs)
    names = [name for name in MEASURES if any(name in run.measures for run in found.runs)]
    measures = {name: MEASURES[name].short for name in names}
    key = "; ".join(f"{MEASURES[name].short}: {MEASURES[name].title}" for name in names)
    head = {axis: axis_name(axis) for axis in axes}
    means = [
        {
            **_axis_cells(runs[0], axes),
            "seeds": len(runs),
            "diverged": sum(run.status == "diverged" for run in runs),
            **{name: mean(runs, name) for name in names},
        }
        for _, runs in by_configuration(found.runs)
    ]
    each = [
        {**_axis_cells(run, axes), "seed": run.config.seed, "status": run.status, "step": run.step}
        | {name: run.measures.get(name) for name in names}
        for run in found.runs
    ]
    return [
        Table(
            title="Means over seeds",
            columns={**head, "seeds": "seeds", "diverged": "diverged", **measures},
            rows=means,
            caption=f"Losses in {LOSS_UNIT}. {key}. A run that diverged counts as ln V, the loss "
            "of a uniform guess.",
        ),
        Table(
            title="All runs",
            columns={**head, "seed": "seed", "status": "status", "step": "steps", **measures},
            rows=each,
            caption=f"The final training loss is the mean over the last {found.recipe.tail} steps.",
        ),
    ]


def _axis_cells(run: RunSummary, axes: Sequence[str]) -> dict[str, object]:
    cells: dict[str, object] = {}
    for axis in axes:
        value = getattr(run.config, axis)
        cells[axis] = axis_value(axis, value) if isinstance(value, str) else value
    return cells


def _details(found: Comparison) -> list[Details]:
    recipe = found.recipe
    groups: dict[str, dict[str, Any]] = {
        "Text": found.text.summary(),
        "Grid": {**dataclasses.asdict(recipe.grid), "seeds": recipe.seeds},
        "Task": {k: v for k, v in dataclasses.asdict(recipe.task).items() if k != "text_sha256"},
        "Model": dataclasses.asdict(recipe.model),
        "Training": dataclasses.asdict(recipe.training),
        "Versions": dict(found.versions),
    }
    return [
        Details(title=title, items={name.replace("_", " "): value for name, value in items.items()})
        for title, items in groups.items()
    ]
