"""Channels of a chart: colour, dash and shape by series, the axes, the lines of a tooltip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import altair as alt

from normkit.pages import style
from normkit.pages.curves import Curves, X
from normkit.pages.records import Axes

# Altair's encoding channels by name: x, y, color ...
Channels: TypeAlias = dict[str, Any]

SIDE_PX = 12


def colour(found: Curves, axes: Axes, symbol: str | None = None) -> alt.Color:
    """Colour by series; the same name has the same colour on the whole page."""
    legend = alt.Legend(symbolType=symbol or alt.Undefined, symbolOpacity=1)
    hues = style.colours(found.series, axes.series_order)
    scale = alt.Scale(domain=list(found.series), range=hues)
    return alt.Color("series:N", scale=scale, legend=legend, title=axes.series_title or axes.series)


def dash(found: Curves, axes: Axes) -> alt.StrokeDash:
    """Dash by series, so that a colour that comes again can be told apart."""
    patterns = style.dashes(found.series, axes.series_order)
    scale = alt.Scale(domain=list(found.series), range=patterns)
    return alt.StrokeDash("series:N", scale=scale, title=axes.series_title or axes.series)


def shape(found: Curves, axes: Axes) -> alt.Shape:
    """Point shape by series."""
    forms = style.shapes(found.series, axes.series_order)
    scale = alt.Scale(domain=list(found.series), range=forms)
    return alt.Shape("series:N", scale=scale, title=axes.series_title or axes.series)


def x_number(axes: Axes, xs: Sequence[X], ticks: bool = False) -> alt.X:
    """An x axis of numbers that ends at the data; ``ticks`` puts one at every value."""
    numbers = sorted({float(x) for x in xs})
    ends = [numbers[0], numbers[-1]]
    if ends[0] == ends[1]:  # one x: room on both sides
        ends = [ends[0] / 2, ends[0] * 2] if axes.x_scale == "log" else [ends[0] - 1, ends[0] + 1]
    scale = alt.Scale(
        type="log" if axes.x_scale == "log" else "linear", domain=ends, nice=False, padding=SIDE_PX
    )
    axis = alt.Axis(values=numbers) if ticks else alt.Axis()
    return alt.X("x:Q", scale=scale, axis=axis, title=axes.x_title)


def y_number(shorthand: str, axes: Axes, domain: tuple[float, float]) -> alt.Y:
    """A y axis over ``domain``; every layer of a chart has the same one."""
    scale = alt.Scale(domain=list(domain), nice=False, zero=False)
    return alt.Y(shorthand, scale=scale, title=axes.y_title)


def line_name(title: str) -> str:
    """A title as the name of a tooltip's line.

    Vega-Lite writes these names into an expression and escapes their quotes, but neither
    backslashes nor what ends a line.
    """
    return " ".join(title.split()).replace("\\", "\\\\")


def place_tooltip(axes: Axes) -> list[alt.Tooltip]:
    """Series, panel and x, under the names that the axes have."""
    lines = [alt.Tooltip("series:N", title=line_name(axes.series_title or axes.series))]
    if axes.facet is not None:
        lines.append(alt.Tooltip("panel:N", title=line_name(axes.facet_title or axes.facet)))
    if axes.x_scale == "category":
        return [*lines, alt.Tooltip("x:N", title=line_name(axes.x_title))]
    return [*lines, alt.Tooltip("x:Q", title=line_name(axes.x_title), format=",~r")]


def value_tooltip(axes: Axes, bands: bool) -> list[alt.Tooltip]:
    """The mean, what the band goes from and to, and how many seeds stand behind it."""
    mean = alt.Tooltip("mean:Q", title=line_name(axes.y_title), format=".5~g")
    if not bands:
        return [mean]
    ready = axes.low is not None
    ends = ("low", "high") if ready else ("lowest seed", "highest seed")
    low = alt.Tooltip("low:Q", title=ends[0], format=".5~g")
    high = alt.Tooltip("high:Q", title=ends[1], format=".5~g")
    return [mean, low, high, *([] if ready else [alt.Tooltip("seeds:Q", title="seeds")])]
