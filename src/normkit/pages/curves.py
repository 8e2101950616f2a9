"""Long-form rows to curves: a mean and a lowest-to-highest band over seeds; what diverged."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TypeAlias

from normkit.pages.records import Axes, refuse

X: TypeAlias = float | str
Row: TypeAlias = Mapping[str, object]


@dataclass(frozen=True, kw_only=True)
class Point:
    """One x of a curve: the mean over ``seeds`` values, the lowest and the highest of them."""

    x: X
    mean: float
    low: float
    high: float
    seeds: int = 1


@dataclass(frozen=True, kw_only=True)
class Curve:
    """The points of one series in one panel, in the order of x."""

    series: str
    panel: str
    points: tuple[Point, ...]


@dataclass(frozen=True, kw_only=True)
class Divergence:
    """A value that is None, NaN or inf: where, and in which run (empty where rows tell no seed)."""

    series: str
    panel: str
    x: X
    seed: str


@dataclass(frozen=True, kw_only=True)
class Curves:
    """All curves of a chart, all divergences, and the names in the order they are drawn."""

    curves: tuple[Curve, ...]
    divergences: tuple[Divergence, ...]
    series: tuple[str, ...]
    panels: tuple[str, ...]
    categories: tuple[str, ...]


def collect(rows: Sequence[Row], axes: Axes, who: str) -> Curves:
    """Group rows by panel, series and x.

    Raises:
        ValueError: no rows, a missing column, an x that is no number, or two values where the
            column names allow one: a band over seeds must not hide another difference.
    """
    if not rows:
        raise refuse(who, "rows must not be empty", "there are 0 rows")
    values: dict[tuple[str, str], dict[X, dict[object, Point]]] = {}
    diverged: list[Divergence] = []
    for number, row in enumerate(rows):
        _check_columns(row, axes, number, who)
        panel = "" if axes.facet is None else str(row[axes.facet])
        series, x = str(row[axes.series]), _x(row, axes, who)
        at_x = values.setdefault((panel, series), {}).setdefault(x, {})
        key = _repetition(row, axes, number)
        if key in at_x:
            raise _twice(who, axes, row)
        point = _read(row, axes, x, who)
        at_x[key] = point
        if not math.isfinite(point.mean):
            seed = str(key) if axes.seed in axes.columns else ""
            diverged.append(Divergence(series=series, panel=panel, x=x, seed=seed))
    return Curves(
        curves=tuple(_curve(key, by_x, axes) for key, by_x in values.items()),
        divergences=tuple(diverged),
        series=_in_order((series for _, series in values), axes.series_order),
        panels=_in_order(panel for panel, _ in values),
        categories=_in_order(str(row[axes.x]) for row in rows),
    )


def first_divergences(divergences: Sequence[Divergence]) -> tuple[Divergence, ...]:
    """Keep, for every run, the divergence with the smallest x: a run has one in a training."""
    first: dict[tuple[str, str, str], Divergence] = {}
    for one in divergences:
        key = (one.panel, one.series, one.seed)
        if key not in first or _sort_key(one.x) < _sort_key(first[key].x):
            first[key] = one
    return tuple(first.values())


def have_bands(curves: Sequence[Curve]) -> bool:
    """Whether any point has a lowest and a highest value that differ."""
    return any(point.low < point.high for curve in curves for point in curve.points)


def most_seeds(curves: Sequence[Curve]) -> int:
    """The largest number of values that one point stands for."""
    return max((point.seeds for curve in curves for point in curve.points), default=0)


def x_text(x: X) -> str:
    """An x as text: whole numbers without a point, others to 9 digits.

    Example:
        >>> x_text(4000.0), x_text(1e-4), x_text("32")
        ('4000', '0.0001', '32')
    """
    if isinstance(x, str):
        return x
    return str(int(x)) if x == int(x) and abs(x) < 1e15 else format(x, ".9g")


def _curve(key: tuple[str, str], by_x: Mapping[X, Mapping[object, Point]], axes: Axes) -> Curve:
    ordered = list(by_x) if axes.x_scale == "category" else sorted(by_x, key=_sort_key)
    merged = (_merge(x, by_x[x].values()) for x in ordered)
    return Curve(panel=key[0], series=key[1], points=tuple(p for p in merged if p is not None))


def _merge(x: X, values: Iterable[Point]) -> Point | None:
    """One point for all values at x; None when none of them is finite."""
    finite = [point for point in values if math.isfinite(point.mean)]
    if not finite:
        return None
    low, high = min(point.low for point in finite), max(point.high for point in finite)
    mean = math.fsum(point.mean / len(finite) for point in finite)  # a plain sum may overflow
    return Point(x=x, mean=min(max(mean, low), high), low=low, high=high, seeds=len(finite))


def _read(row: Row, axes: Axes, x: X, who: str) -> Point:
    mean = _number(row, axes.y, who)
    if axes.low is None or axes.high is None:
        return Point(x=x, mean=mean, low=mean, high=mean)
    low, high = _number(row, axes.low, who), _number(row, axes.high, who)
    whole = math.isfinite(low) and math.isfinite(high)
    return Point(x=x, mean=mean, low=low if whole else mean, high=high if whole else mean)


def _number(row: Row, column: str, who: str) -> float:
    """A float; None is NaN, because JSON has no other way to say it."""
    value = row[column]
    if value is None:
        return math.nan
    if not isinstance(value, Real):
        raise refuse(who, f"{column} must be a number or None", f"it is {value!r}")
    return float(value)


def _x(row: Row, axes: Axes, who: str) -> X:
    if axes.x_scale == "category":
        return str(row[axes.x])
    value = _number(row, axes.x, who)
    if not math.isfinite(value):
        raise refuse(who, f"{axes.x} must be a finite number", f"it is {row[axes.x]!r}")
    if axes.x_scale == "log" and value <= 0:
        raise refuse(who, f"{axes.x} must be positive on a log axis", f"it is {row[axes.x]!r}")
    return value


def _repetition(row: Row, axes: Axes, number: int) -> object:
    """What tells two values at one place apart: the seed, or the row where there is no seed."""
    if axes.low is not None:
        return ""
    return number if axes.seed is None else row[axes.seed]


def _check_columns(row: Row, axes: Axes, number: int, who: str) -> None:
    for name in axes.columns:
        if name not in row:
            has = ", ".join(map(str, row)) or "no column"
            raise refuse(who, f"every row needs the column {name!r}", f"row {number} has {has}")


def _twice(who: str, axes: Axes, row: Row) -> ValueError:
    names = [name for name in axes.columns if name not in (axes.y, axes.low, axes.high)]
    place = ", ".join(f"{name}={row[name]!r}" for name in names)
    return refuse(who, "one row for each place, so filter the rows first", f"two rows have {place}")


def _in_order(names: Iterable[str], order: Sequence[str] = ()) -> tuple[str, ...]:
    """Each name once: first those of ``order``, then the others as they come."""
    seen = dict.fromkeys(names)
    return tuple(dict.fromkeys([*(n for n in order if n in seen), *seen]))


def _sort_key(x: X) -> tuple[bool, float, str]:
    """Numbers before names, each in its own order."""
    return (True, 0.0, x) if isinstance(x, str) else (False, x, "")
