"""The thinning rule keeps ends, spikes, order, and its promise about the number of points."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from normkit.pages import CURVE_POINTS, thin
from normkit.pages.curves import Curve, Point
from normkit.pages.thinning import CHART_POINTS, points_per_curve, thin_all


def noisy(count: int, seed: int = 0) -> list[Point]:
    """Points with a band around a random mean."""
    dice = random.Random(seed)
    means = [dice.gauss(2.0, 0.1) for _ in range(count)]
    return [
        Point(x=float(x), mean=mean, low=mean - dice.random(), high=mean + dice.random(), seeds=3)
        for x, mean in enumerate(means)
    ]


@given(st.integers(0, 2000), st.integers(4, 320), st.integers(0, 9))
def test_rule(count: int, limit: int, seed: int) -> None:
    """At most ``limit`` points, in order, among those measured; both ends and both extremes."""
    points = noisy(count, seed)
    kept = thin(points, limit)
    assert len(kept) <= limit
    assert [p.x for p in kept] == sorted({p.x for p in kept})
    assert set(kept) <= set(points)
    if points:
        assert (kept[0], kept[-1]) == (points[0], points[-1])
        assert min(p.low for p in kept) == min(p.low for p in points)
        assert max(p.high for p in kept) == max(p.high for p in points)


def test_short_curves_stay_whole() -> None:
    """Nothing is left out of a curve of 300 points."""
    points = noisy(CURVE_POINTS)
    assert thin(points) == tuple(points)


def test_a_single_spike_is_kept() -> None:
    """One point of 4000 that sticks out, up or down."""
    points = [Point(x=float(x), mean=1.0, low=1.0, high=1.0) for x in range(4000)]
    points[1234] = Point(x=1234.0, mean=9.0, low=9.0, high=9.0)
    points[2345] = Point(x=2345.0, mean=0.1, low=0.1, high=0.1)
    assert {1234.0, 2345.0} <= {p.x for p in thin(points)}


def test_many_curves_share_the_chart() -> None:
    """The chart's number holds for any number of curves up to a thousand."""
    for curves in (1, 45, 66, 67, 400, 1000):
        assert points_per_curve(curves) <= CURVE_POINTS
        assert curves * points_per_curve(curves) <= CHART_POINTS
    drawn = thin_all([Curve(series=str(i), panel="", points=tuple(noisy(900))) for i in range(100)])
    assert 15_000 < sum(len(curve.points) for curve in drawn) <= CHART_POINTS


def test_limit_too_small() -> None:
    """Fewer than 4 points cannot hold both ends and both extremes."""
    with pytest.raises(ValueError, match=r"^thin: limit must be at least 4; limit is 3\.$"):
        thin([], 3)
