"""How far the y axis of a chart goes."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from normkit.pages.curves import Curve
from normkit.pages.records import Reference

# How far above the lowest value the axis may go, in units of the usual level.
EXPLOSION = 5.0

ROOM_BELOW, ROOM_ABOVE, ROOM_FOR_MARKS = 0.05, 0.05, 0.18


def y_range(
    curves: Sequence[Curve], references: Sequence[Reference], marks: bool = False
) -> tuple[float, float]:
    """Lowest and highest value on the axis; ``marks`` makes room for crosses at the top.

    A run that explodes would press all other curves flat. So a value explodes when it lies above
    the lowest one by more than ``EXPLOSION`` times the usual level. A curve's level is the greater
    of its start and its median, the usual level is the median of those: losses start high and
    explode late. Curves that explode are shown up to their level, all others whole.
    """
    curves = [curve for curve in curves if curve.points]
    if not curves:
        return 0.0, 1.0
    low = min(point.low for curve in curves for point in curve.points)
    usual = statistics.median(_level(curve) for curve in curves)
    limit = low + EXPLOSION * max(abs(usual), usual - low)
    wild = [curve for curve in curves if _highest(curve) > limit]
    calm = [_highest(curve) for curve in curves if curve not in wild]
    levels = [level for level in map(_level, wild) if level <= limit]
    lines = [reference.value for reference in references]
    top = max([usual, *calm, *levels, *lines])
    return padded(min([low, *lines]), top, marks or bool(wild))


def padded(low: float, high: float, marks: bool) -> tuple[float, float]:
    """A little room below and above, more above where marks stand at the edge.

    Example:
        >>> padded(1.0, 3.0, marks=False)
        (0.9, 3.1)
    """
    length = (high - low) or abs(high) or 1.0
    return low - ROOM_BELOW * length, high + (ROOM_FOR_MARKS if marks else ROOM_ABOVE) * length


def _highest(curve: Curve) -> float:
    return max(point.high for point in curve.points)


def _level(curve: Curve) -> float:
    return max(curve.points[0].mean, statistics.median(point.mean for point in curve.points))
