"""Rows become curves: means, bands, divergences; what is ambiguous is refused."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from normkit.pages import Axes
from normkit.pages.curves import Divergence, Point, collect, first_divergences, x_text

AXES = Axes(x="step", y="loss", series="norm", x_title="step", y_title="loss (nats)")


def row(step: Any, loss: Any, seed: int = 0, norm: str = "rms_norm", **more: Any) -> dict[str, Any]:
    """One long-form row."""
    return {"step": step, "loss": loss, "seed": seed, "norm": norm, **more}


def test_mean_and_band_over_seeds() -> None:
    """Three seeds at one step are one point."""
    found = collect([row(0, 1.0), row(0, 2.0, 1), row(0, 6.0, 2), row(5, 1.5)], AXES, "who")
    (curve,) = found.curves
    assert curve.series == "rms_norm"
    assert curve.points == (
        Point(x=0.0, mean=3.0, low=1.0, high=6.0, seeds=3),
        Point(x=5.0, mean=1.5, low=1.5, high=1.5, seeds=1),
    )


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=8), st.randoms())
def test_mean_lies_in_the_band_in_any_order(values: list[float], dice: Any) -> None:
    """Rounding never puts the mean outside the band, and the order of rows does not matter."""
    rows = [row(0, value, seed) for seed, value in enumerate(values)]
    shuffled = rows.copy()
    dice.shuffle(shuffled)
    (point,) = collect(rows, AXES, "who").curves[0].points
    assert point.low == min(values) <= point.mean <= max(values) == point.high
    assert collect(shuffled, AXES, "who").curves[0].points == (point,)


@pytest.mark.parametrize("lost", [None, math.nan, math.inf, -math.inf])
def test_diverged_values_are_kept_apart(lost: float | None) -> None:
    """They do not enter the mean, and none is forgotten."""
    found = collect([row(0, 1.0), row(0, lost, 1), row(1, lost, 0), row(1, lost, 1)], AXES, "who")
    assert found.curves[0].points == (Point(x=0.0, mean=1.0, low=1.0, high=1.0),)
    assert [(one.x, one.seed) for one in found.divergences] == [(0.0, "1"), (1.0, "0"), (1.0, "1")]


def test_first_divergence_of_a_run() -> None:
    """A run diverges once, at the smallest step, whatever the order of its rows."""
    first = Divergence(series="a", panel="", x=3.0, seed="0")
    other = Divergence(series="a", panel="", x=9.0, seed="1")
    assert first_divergences([replace(first, x=7.0), first, other]) == (first, other)


def test_numbers_are_sorted_and_categories_are_not() -> None:
    """A category axis keeps the order of the rows."""
    rows = [row(32, 1.0), row(4, 2.0), row(2, 3.0)]
    numbers = collect(rows, AXES, "who")
    names = collect(rows, replace(AXES, x_scale="category"), "who")
    assert [point.x for point in numbers.curves[0].points] == [2.0, 4.0, 32.0]
    assert [point.x for point in names.curves[0].points] == ["32", "4", "2"]
    assert names.categories == ("32", "4", "2")


def test_order_of_series_and_panels() -> None:
    """The page's order first, then as the rows come; names that have no row are not drawn."""
    axes = replace(AXES, facet="where", series_order=("c", "absent", "a"))
    found = collect([row(0, 1, norm=n, where=w) for n, w in ("by", "ax", "cy")], axes, "who")
    assert found.series == ("c", "a", "b")
    assert found.panels == ("y", "x")


def test_ready_interval() -> None:
    """The interval of the rows is taken as it is; a point without one has no length."""
    axes = replace(AXES, low="low", high="high")
    rows = [row(0, 1.0, low=0.5, high=3.0), row(1, 1.0, low=None, high=None)]
    for one in rows:
        del one["seed"]
    points = collect(rows, axes, "who").curves[0].points
    assert [(p.low, p.high) for p in points] == [(0.5, 3.0), (1.0, 1.0)]


@pytest.mark.parametrize(
    ("rows", "axes", "text"),
    [
        ([], AXES, "who: rows must not be empty; there are 0 rows."),
        (
            [row(0, 1.0), {"step": 1, "loss": 1.0}],
            AXES,
            "who: every row needs the column 'norm'; row 1 has step, loss.",
        ),
        (
            [row(0, 1.0), row(0, 2.0)],
            AXES,
            "who: one row for each place, so filter the rows first; two rows have step=0, "
            "norm='rms_norm', seed=0.",
        ),
        ([row(0, "1.0")], AXES, "who: loss must be a number or None; it is '1.0'."),
        ([row(None, 1.0)], AXES, "who: step must be a finite number; it is None."),
        (
            [row(0, 1.0)],
            replace(AXES, x_scale="log"),
            "who: step must be positive on a log axis; it is 0.",
        ),
    ],
)
def test_refused(rows: list[dict[str, Any]], axes: Axes, text: str) -> None:
    """The sentence says the rule and what came."""
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        collect(rows, axes, "who")


def test_without_seeds_rows_repeat() -> None:
    """Rows that tell no seed are repetitions of each other."""
    rows = [{"step": 0, "loss": 1.0, "norm": "a"}, {"step": 0, "loss": 3.0, "norm": "a"}]
    (point,) = collect(rows, replace(AXES, seed=None), "who").curves[0].points
    assert (point.mean, point.seeds) == (2.0, 2)


@pytest.mark.parametrize(
    ("x", "text"), [(12_345_678.0, "12345678"), (0.25, "0.25"), (1e300, "1e+300"), ("a", "a")]
)
def test_x_text(x: float | str, text: str) -> None:
    """A step is written whole."""
    assert x_text(x) == text
