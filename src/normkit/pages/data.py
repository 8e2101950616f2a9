"""The rows of a chart as one CSV text, and the marks at the top edge of its panels."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import altair as alt

from normkit.pages.curves import Curve, Point, X, have_bands, x_text
from normkit.pages.records import Axes

# The data block has fixed short column names, so a user's column may be called anything.
COLUMNS = ("series", "panel", "x", "mean", "low", "high", "seeds", "kind", "edge", "note")
TEXT_COLUMNS = ("series", "panel", "kind", "note")

FIRST_MARK_PX = 7.0
NEXT_MARK_PX = 11.0

EdgeKind = Literal["diverged", "above"]


@dataclass(frozen=True, kw_only=True)
class EdgeMark:
    """A mark at the top edge of a panel: a cross for a run that diverged, an arrow for a value
    that the axis leaves above."""

    kind: EdgeKind = "diverged"
    series: str
    panel: str
    x: X
    note: str


def below(curves: Sequence[Curve], high: float) -> tuple[tuple[Curve, ...], tuple[Curve, ...]]:
    """Split every curve: the points up to ``high``, and (where there are any) those above it."""

    def part(curve: Curve, above: bool) -> Curve:
        return replace(curve, points=tuple(p for p in curve.points if (p.mean > high) == above))

    beyond = (part(curve, above=True) for curve in curves)
    shown = tuple(part(curve, above=False) for curve in curves)
    return shown, tuple(curve for curve in beyond if curve.points)


def arrow(curve: Curve, point: Point) -> EdgeMark:
    """An arrow where a curve has a point above the axis, with its value."""
    note = f"{point.mean:.4g}, above the axis"
    return EdgeMark(kind="above", series=curve.series, panel=curve.panel, x=point.x, note=note)


def data_block(curves: Sequence[Curve], marks: Sequence[EdgeMark], axes: Axes) -> alt.InlineData:
    """All rows of a chart as one CSV text: a third of the bytes of a list of objects."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    bands = have_bands(curves)
    panels = list(dict.fromkeys(curve.panel for curve in curves))
    for curve in sorted(curves, key=lambda curve: panels.index(curve.panel)):
        for p in curve.points:
            band = (_short(p.low), _short(p.high)) if bands else ("", "")
            place = (curve.series, curve.panel, x_text(p.x))
            table.writerow((*place, _short(p.mean), *band, p.seeds, "", "", ""))
    for mark, edge in _stacked(marks):
        place = (mark.series, mark.panel, x_text(mark.x))
        table.writerow((*place, "", "", "", "", mark.kind, edge, mark.note))
    parse = {name: "string" if name in TEXT_COLUMNS else "number" for name in COLUMNS}
    if axes.x_scale == "category":
        parse["x"] = "string"
    return alt.InlineData(values=text.getvalue(), format=alt.CsvDataFormat(type="csv", parse=parse))


def _short(value: float) -> str:
    """A measured value to 5 digits: more than a picture can show, and short in the file."""
    return format(value, ".5g") if math.isfinite(value) else ""


def _stacked(marks: Sequence[EdgeMark]) -> Iterable[tuple[EdgeMark, float]]:
    """Give marks that meet at one place of one panel different distances from the edge."""
    taken: dict[tuple[str, X], int] = {}
    for mark in marks:
        place = (mark.panel, mark.x)
        yield mark, FIRST_MARK_PX + NEXT_MARK_PX * taken.get(place, 0)
        taken[place] = taken.get(place, 0) + 1
