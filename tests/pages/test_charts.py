"""What is drawn, and what the caption says about it."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from dataclasses import replace
from typing import Any

import pytest

from normkit.pages import Axes, Chart, Reference, interval_chart, loss_curves
from normkit.pages.curves import Curve, Point
from normkit.pages.ranges import y_range
from tests.pages import samples

AXES = replace(samples.LOSS_AXES, facet=None, facet_title="")


def spec_of(chart: Chart) -> dict[str, Any]:
    """The specification as plain data, without non-finite numbers."""
    spec: dict[str, Any] = json.loads(json.dumps(chart.spec.to_dict(), allow_nan=False))
    return spec


def rows_of(chart: Chart) -> list[dict[str, str]]:
    """The rows that the chart draws."""
    spec = spec_of(chart)
    text = spec["datasets"][spec["data"]["name"]]
    return list(csv.DictReader(io.StringIO(text)))


def draw(rows: list[dict[str, Any]], **more: Any) -> Chart:
    """A chart of loss curves."""
    return loss_curves(rows, **{"axes": AXES, "name": "loss", "title": "Loss", **more})


def run(norm: str, values: list[float | None], seed: int = 0) -> list[dict[str, Any]]:
    """The rows of one run."""
    return [{"norm": norm, "seed": seed, "step": s, "value": v} for s, v in enumerate(values)]


def test_band_is_lowest_to_highest() -> None:
    """Mean, lowest and highest stand in the data, and the caption says which is which."""
    chart = draw(run("a", [1.0, 2.0]) + run("a", [3.0, 2.0], seed=1))
    assert [(r["mean"], r["low"], r["high"], r["seeds"]) for r in rows_of(chart)] == [
        ("2", "1", "3", "2"),
        ("2", "2", "2", "2"),
    ]
    assert chart.caption == "Line: mean over 2 seeds; band: lowest to highest seed."
    assert "area" in [layer["mark"]["type"] for layer in spec_of(chart)["layer"]]


def test_one_seed_has_no_band() -> None:
    """No band is drawn, no band is promised."""
    chart = draw(run("a", [1.0, 2.0]), caption="Lower is better.")
    assert chart.caption == "Lower is better. One seed, so no band."
    assert "area" not in [layer["mark"]["type"] for layer in spec_of(chart)["layer"]]
    assert {r["low"] for r in rows_of(chart)} == {""}


@pytest.mark.parametrize("lost", [None, math.nan, math.inf])
def test_diverged_runs_are_marked_and_named(lost: float | None) -> None:
    """A cross at the top edge where each run diverged first, and a line in the caption."""
    chart = draw(
        run("a", [1.0, 2.0, lost]) + run("a", [1.0, lost, lost], seed=1) + run("b", [lost])
    )
    marks = [(r["series"], r["x"], r["note"]) for r in rows_of(chart) if r["kind"] == "diverged"]
    assert marks == [
        ("a", "2", "diverged, seed 0"),
        ("a", "1", "diverged, seed 1"),
        ("b", "0", "diverged, seed 0"),
    ]
    assert chart.caption == (
        "Line: mean over up to 2 seeds; band: lowest to highest seed. "
        "Diverged (\u00d7 at the top edge): a at step 2, seed 0; a at step 1, seed 1; "
        "b at step 0, seed 0. A mean is over the seeds that did not diverge."
    )


def test_all_runs_diverged_from_the_start() -> None:
    """There is still a chart, with its crosses."""
    chart = draw(run("a", [None]) + run("b", [math.nan]))
    marks = [(r["series"], r["x"], float(r["edge"])) for r in rows_of(chart)]
    assert marks == [("a", "0", 7.0), ("b", "0", 18.0)]  # one below the other, both visible


def test_explosion_does_not_flatten_the_others() -> None:
    """The axis ends below the explosion; an arrow and the caption say what is above it."""
    calm = [4.6, 3.0, 2.0, 1.5, 1.5]
    chart = draw(run("calm", calm) + run("wild", [4.6, 3.0, 2.5, 90.0, 1e30]))
    (top,) = {layer["encoding"]["y"]["scale"]["domain"][1] for layer in spec_of(chart)["layer"][:1]}
    assert 4.6 < top < 6
    arrows = [(r["series"], r["note"]) for r in rows_of(chart) if r["kind"] == "above"]
    assert arrows == [("wild", "1e+30, above the axis")]
    assert f"The axis ends at {top:.3g}; above it (arrow): wild." in chart.caption
    assert max(float(r["mean"]) for r in rows_of(chart) if r["mean"]) == 4.6


@pytest.mark.parametrize(
    "values", [[4.6, 2.0, 1.5], [0.1, 0.5, 0.9], [1.5, 1.5, 1.5, 1.9], [-3.0, -1.0, 2.0], [7.0]]
)
def test_ordinary_curves_are_shown_whole(values: list[float]) -> None:
    """Falling, rising, flat with a spike, through zero, a single point."""
    points = tuple(Point(x=float(i), mean=v, low=v, high=v) for i, v in enumerate(values))
    low, high = y_range([Curve(series="a", panel="", points=points)], [])
    assert low < min(values) <= max(values) < high


def test_an_explosion_cuts_no_other_curve() -> None:
    """A calm curve above the usual level is shown whole; most runs may explode."""
    high = run("high", [4.6, 5.0, 6.5])
    chart = draw(run("calm", [4.6, 2.0, 1.5]) + high + run("wild", [4.6, 4.0, 1e9]))
    assert [r["series"] for r in rows_of(chart) if r["kind"] == "above"] == ["wild"]
    wild = [row for i in range(5) for row in run(f"wild{i}", [4.6, 4.0, 3.0, 1e9])]
    chart = draw(run("calm", [4.6, 2.0, 1.5, 1.4]) + wild)
    assert spec_of(chart)["layer"][0]["encoding"]["y"]["scale"]["domain"][1] < 6
    assert len([r for r in rows_of(chart) if r["kind"] == "above"]) == 5


def test_reference_line_is_inside_the_axis() -> None:
    """A reference above all curves widens the axis, and is drawn with its label."""
    chart = draw(run("a", [2.0, 1.0]), references=[Reference(value=3.05, label="unigram entropy")])
    layers = spec_of(chart)["layer"]
    assert layers[0]["encoding"]["y"]["scale"]["domain"][1] > 3.05
    assert [layer["mark"]["type"] for layer in layers] == ["line", "rule", "text", "point"]
    assert {"value": 3.05, "label": "unigram entropy (3.05)"} in [
        row
        for rows in spec_of(chart)["datasets"].values()
        if isinstance(rows, list)
        for row in rows
    ]


def test_a_name_has_one_colour_on_the_page() -> None:
    """A chart that lacks the first series does not move the colours of the others."""
    axes = replace(AXES, series_order=("a", "b"))
    both = draw(run("a", [1.0]) + run("b", [1.0]), axes=axes)
    alone = draw(run("b", [1.0]), axes=axes)

    def hues(chart: Chart) -> dict[str, str]:
        scale = spec_of(chart)["layer"][0]["encoding"]["color"]["scale"]
        return dict(zip(scale["domain"], scale["range"], strict=True))

    assert hues(both) == {"a": "#0072B2", "b": "#D55E00"}
    assert hues(alone) == {"b": "#D55E00"}


def test_more_series_than_colours() -> None:
    """A colour that comes again has another dash."""
    chart = draw([row for i in range(14) for row in run(f"s{i}", [1.0])], axes=AXES)
    encoding = spec_of(chart)["layer"][0]["encoding"]
    pairs = zip(
        encoding["color"]["scale"]["range"], map(str, encoding["strokeDash"]["scale"]["range"]),
        strict=True,
    )  # fmt: skip
    assert len(set(pairs)) == 14


def test_long_curves_are_thinned_and_the_caption_says_so() -> None:
    """4000 points: at most 300 are drawn."""
    chart = draw(run("a", [1.0 + (i % 7) for i in range(4000)]))
    drawn = len(rows_of(chart))
    assert 150 < drawn <= 300
    assert f"Of the 4,000 points of a long curve {drawn} are drawn" in chart.caption


def test_interval_chart_marks_each_setting() -> None:
    """Divergences at a setting are one cross with its seeds; explosions are arrows."""
    depth, batch = samples.charts()[1:]
    crosses = [r for r in rows_of(depth) if r["kind"] == "diverged"]
    assert [(r["series"], r["x"], r["note"]) for r in crosses] == [
        ("post", "48", "diverged, seeds 0, 1")
    ]
    assert "Diverged (\u00d7 at the top edge): post at depth 48, seeds 0, 1." in depth.caption
    arrows = [r for r in rows_of(batch) if r["kind"] == "above"]
    assert [(r["series"], r["x"], r["note"]) for r in arrows] == [
        ("no_norm", "2", "1e+06, above the axis")
    ]
    assert "above it (arrow): no_norm (2)." in batch.caption


def test_interval_of_the_rows() -> None:
    """A ready interval is drawn as it is, and the caption leaves it to the caller."""
    axes = Axes(
        x="d", y="m", series="s", x_title="d", y_title="m", low="lo", high="hi", x_scale="log"
    )
    rows = [{"d": 2, "m": 1.0, "lo": 0.5, "hi": 2.5, "s": "a"}]
    chart = interval_chart(rows, axes=axes, name="i", title="I", caption="95% interval.")
    assert [(r["mean"], r["low"], r["high"]) for r in rows_of(chart)] == [("1", "0.5", "2.5")]
    assert chart.caption == "95% interval."
    assert [layer["mark"]["type"] for layer in spec_of(chart)["layer"]][:3] == [
        "line",
        "rule",
        "point",
    ]


def test_panels() -> None:
    """One panel for each value of the facet, in the order of the rows."""
    chart = samples.charts()[0]
    assert list(dict.fromkeys(row["panel"] for row in rows_of(chart))) == ["post", "pre"]
    assert spec_of(chart)["columns"] == 2
    assert spec_of(chart)["transform"] == [
        {"calculate": '"placement: " + datum.panel', "as": "heading"},
        {"calculate": 'indexof(["post", "pre"], datum.panel)', "as": "place"},
    ]


def test_panels_stay_in_order_when_rows_are_mixed() -> None:
    """Vega draws panels in the order of the data, so the data have it."""
    rows = [{**row, "placement": p} for row in run("a", [1.0]) for p in ("z", "b")]
    rows += [{**row, "placement": p} for row in run("c", [1.0]) for p in ("b", "a", "z")]
    chart = draw(rows, axes=samples.LOSS_AXES)
    assert [row["panel"] for row in rows_of(chart)] == ["z", "z", "b", "b", "a"]


def test_category_on_a_curve_is_refused() -> None:
    """A curve over training has a number for x."""
    text = "loss_curves: x must be a number; x_scale is 'category'."
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        draw(run("a", [1.0]), axes=replace(AXES, x_scale="category"))
