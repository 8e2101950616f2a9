"""The page of a comparison: what stands on it, in which order, and that a browser draws it."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page as Tab

from normkit.lab import folder, page
from normkit.lab.charts import Charts
from normkit.lab.config import RunConfig
from normkit.lab.judge import RunSummary
from normkit.lab.measures import measure
from normkit.lab.recipe import AxisChart
from normkit.lab.recipes import find
from normkit.lab.records import Record, append
from normkit.lab.result import Comparison, read_comparison
from normkit.pages import Chart, Page
from tests.lab import small
from tests.pages.looking import points_drawn

STEPS = 250
RESULT = {"versions": {"torch": "2.0", "threads": 1}}


def records_of(config: RunConfig) -> list[Record]:
    """A smooth curve whose height depends on norm, depth and seed; no_norm diverges."""
    level = 2.0 + 0.1 * len(config.norm) + 0.01 * config.seed + 0.05 * config.depth
    last = 120 if config.norm == "no_norm" else STEPS
    rows = []
    for step in range(1, last + 1):
        loss = level + math.exp(-step / 50)
        value = math.nan if config.norm == "no_norm" and step == last else loss
        rows.append(Record(config.id, step, step * 8, "loss", "train", value))
        if step % 50 == 0:
            rows.append(Record(config.id, step, step * 8, "loss", "validation", loss + 0.1))
            rows.append(Record(config.id, step, step * 8, "tokens_per_s", "train", 1000.0))
            if "batch" in config.norm:
                split = "validation_batch_statistics"
                rows.append(Record(config.id, step, step * 8, "loss", split, loss))
    return rows


def planted(out: Path, norms: tuple[str, ...], depths: tuple[int, ...] = (2,)) -> Comparison:
    """A folder whose runs were not trained but written down."""
    configs = [
        small.config(norm=norm, depth=depth, seed=seed, training={"steps": STEPS})
        for norm in norms
        for depth in depths
        for seed in range(3)
    ]
    for config in configs:
        where = folder.run_folder(out, config.id)
        where.mkdir(parents=True)
        rows = records_of(config)
        size = append(where / "records.jsonl", rows)
        status = "diverged" if config.norm == "no_norm" else "finished"
        end = {"status": status, "step": rows[-1].step, "records_bytes": size}
        folder.write_json(where / "result.json", {**RESULT, **end})
    recipe = find("ln-vs-bn")
    return read_comparison(out, recipe, configs, small.text())


NORMS = ("layer_norm", "batch_norm", "no_norm")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """Three norms, two depths, three seeds."""
    return planted(tmp_path_factory.mktemp("planted"), NORMS, (1, 2))


@pytest.fixture(scope="module")
def built(found: Comparison) -> Page:
    """Its page."""
    return page.build(found)


def test_verdicts_then_who_is_best(found: Comparison, built: Page) -> None:
    """Each claim with its words, then one card for each ranking."""
    claims = [card for card in built.verdicts if card.verdict != "measured"]
    assert [card.sentence for card in claims] == [verdict.sentence for verdict in found.verdicts]
    assert [card.source for card in claims] == [verdict.source for verdict in found.verdicts]
    assert [card.verdict for card in claims] == [verdict.decision for verdict in found.verdicts]
    assert list(built.verdicts[: len(claims)]) == claims
    measured = [card.claim for card in built.verdicts[len(claims) :]]
    assert measured == ["What trained best at depth 1?", "What trained best at depth 2?"]
    worse = next(card for card in claims if card.claim.startswith("BatchNorm validates worse"))
    assert "(depth 1)" in worse.claim
    assert worse.verdict == "undecided" or worse.details["seed 0"] == "+0.0000"
    assert built.lead.startswith(found.recipe.question)
    assert "leak the future" in built.lead


def test_charts(built: Page) -> None:
    """Loss curves, then the recipe's charts."""
    assert [chart.name for chart in built.charts] == [
        "training-loss",
        "validation-loss",
        "validation-loss-batch-statistics",
        "validation-loss-by-batch-size",
        "validation-batch-loss-by-batch-size",
        "step-spread-by-batch-size",
    ]
    assert built.charts[0].caption.startswith("Every value is a mean over 2 steps.")
    assert "Diverged" in built.charts[0].caption


def test_tables(found: Comparison, built: Page) -> None:
    """Means over seeds, and every run; a number in each is what the records say."""
    means, each = built.tables
    assert len(means.rows) == 6
    assert len(each.rows) == len(found.runs) == 18
    first = means.rows[0]
    assert (first["norm"], first["depth"], first["seeds"], first["diverged"]) == (
        "LayerNorm",
        1,
        3,
        0,
    )
    runs = found.runs[:3]
    losses = [run.measures["validation_loss"] for run in runs]
    assert first["validation_loss"] == pytest.approx(sum(losses) / 3)
    assert means.rows[-1]["diverged"] == 3
    assert {row["status"] for row in each.rows} == {"finished", "diverged"}
    assert set(each.columns) == set(each.rows[0])


def test_configuration_and_versions(built: Page) -> None:
    """Everything that a reader needs to do it again."""
    titles = [group.title for group in built.details]
    assert titles == ["Text", "Grid", "Task", "Model", "Training", "Versions"]
    items = {group.title: group.items for group in built.details}
    assert items["Text"]["sha256"] == small.text().sha256
    assert items["Text"]["unigram entropy nats"] == small.text().unigram_entropy
    assert items["Training"]["warmup steps"] == 20
    assert items["Versions"] == {"torch": ["2.0"], "threads": [1]}


def test_a_diverged_run_counts_as_a_uniform_guess(found: Comparison) -> None:
    """In every loss."""
    run = found.runs[-1]
    assert (run.status, run.step) == ("diverged", 120)
    vocabulary = small.task(run.config).vocabulary
    assert run.measures["validation_loss"] == math.log(vocabulary)


def test_a_comparison_without_a_run(tmp_path: Path) -> None:
    """All runs failed: the page says what is missing and has no chart."""
    nothing = read_comparison(tmp_path, find("demo"), [small.config()], small.text())
    built = page.build(nothing)
    assert (built.charts, built.tables) == ([], [])
    assert {card.verdict for card in built.verdicts} == {"undecided"}
    page.write(nothing)
    assert nothing.page.exists()


def charts(runs: list[RunSummary], rows: dict[str, list[dict[str, Any]]]) -> Charts:
    """Charts without reference lines."""
    return Charts(runs, rows, [])


def drawn(chart: Chart | None) -> str:
    """The chart as text."""
    assert chart is not None
    return str(chart.spec.to_dict())


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ([{"norm": "layer_norm"}, {"norm": "rms_norm"}], ["LayerNorm", "RMSNorm"]),
        ([{"placement": "pre"}, {"placement": "post"}], ["Pre-norm", "Post-norm"]),
        ([{"lr": 0.1}, {"lr": 0.2}], ["learning rate 0.1", "learning rate 0.2"]),
        ([{}], ["LayerNorm"]),
    ],
    ids=str,
)
def test_series_are_named_by_what_differs(changes: list[dict[str, Any]], names: list[str]) -> None:
    """And by nothing else."""
    runs = [small.summary(2.0, **change) for change in changes]
    assert list(charts(runs, {}).order) == names


def test_a_chart_without_a_value_is_left_out() -> None:
    """No run has batch statistics."""
    run = small.summary(2.0)
    found = charts([run], {run.config.id: []})
    assert found.curves("validation_batch_statistics") is None
    chart = AxisChart(measure="validation_batch_loss", axis="batch_size", title="t")
    assert found.against(chart) is None


@pytest.mark.parametrize(
    ("axis", "values", "scale"),
    [
        ("depth", [2, 48], "log"),
        ("lr", [0.1, 0.2], "linear"),
    ],
)
def test_axes_of_charts(axis: Any, values: list[Any], scale: str) -> None:
    """Depths over a wide range are on a log axis; others are not."""
    runs = [small.summary(2.0, **{axis: value}) for value in values]
    chart = AxisChart(measure="validation_loss", axis=axis, title="t")
    text = drawn(charts(runs, {}).against(chart))
    assert ("'log'" in text) == (scale == "log")


def test_measures_agree_with_the_records(found: Comparison) -> None:
    """The summary is computed from the same file that the page draws."""
    run = found.runs[0]
    rows = [row for row in found.records() if row["run"] == run.config.id]
    assert run.measures == measure(rows, tail=found.recipe.tail)


@pytest.mark.browser
def test_in_a_browser(show: Callable[..., Tab], tmp_path: Path) -> None:
    """No console error, every chart drawn with its points, and under 5 MB."""
    found = planted(tmp_path, NORMS, (1, 2))
    page.write(found)
    assert found.page.stat().st_size < 5_000_000
    tab = show(found.page)
    assert tab.locator("figure.chart canvas").count() == 6
    words = tab.locator(".verdict").first.inner_text()
    assert found.verdicts[0].claim in words
    loss = points_drawn(tab, "training-loss")
    assert loss["line LayerNorm"] == 2 * 125  # two panels
    assert loss["diverged no norm"] == 6
