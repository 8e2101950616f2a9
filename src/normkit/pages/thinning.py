"""Which points of a long curve are drawn.

The rule: a curve of more than ``limit`` points keeps its first and its last point; the points
between are cut into ``(limit - 2) // 2`` runs of equal length, and each run keeps the point with
the lowest low and the point with the highest high. Every point that is drawn was measured (no
averages), no spike is lost, and the order stays.
"""

from __future__ import annotations

from collections.abc import Sequence

from normkit.pages.curves import Curve, Point

#: Points drawn for one curve, at most.
CURVE_POINTS = 300

#: Points drawn in one chart, at most (about 1 MB of the page): many curves get fewer points each.
CHART_POINTS = 20_000

#: Below this a curve is no curve any more; a chart with more than 1000 curves may then be larger.
FEWEST_POINTS = 20


def points_per_curve(curves: int) -> int:
    """How many points each of ``curves`` curves may have.

    Example:
        >>> points_per_curve(9), points_per_curve(400)
        (300, 50)
    """
    return max(FEWEST_POINTS, min(CURVE_POINTS, CHART_POINTS // max(curves, 1)))


def thin(points: Sequence[Point], limit: int = CURVE_POINTS) -> tuple[Point, ...]:
    """Keep at most ``limit`` points by the rule above; ``limit`` is at least 4."""
    if limit < 4:
        raise ValueError(f"thin: limit must be at least 4; limit is {limit}.")
    if len(points) <= limit:
        return tuple(points)
    inner = len(points) - 2
    runs = (limit - 2) // 2
    kept = {0, len(points) - 1}
    for run in range(runs):
        indices = range(1 + run * inner // runs, 1 + (run + 1) * inner // runs)
        kept.add(min(indices, key=lambda i: points[i].low))
        kept.add(max(indices, key=lambda i: points[i].high))
    return tuple(points[i] for i in sorted(kept))


def thin_all(curves: Sequence[Curve]) -> tuple[Curve, ...]:
    """Thin every curve of a chart to the number of points that the chart allows it."""
    limit = points_per_curve(len(curves))
    return tuple(
        Curve(series=c.series, panel=c.panel, points=thin(c.points, limit)) for c in curves
    )
