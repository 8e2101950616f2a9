"""Colours, dashes, shapes and the look shared by all charts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import altair as alt

Drawn = TypeVar("Drawn", alt.LayerChart, alt.FacetChart)

# Okabe and Ito's palette for colour-blind readers, without black (lost on a dark page) and yellow
# (lost on a white one).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")

# With more series than colours the colours come again, each round with another dash.
DASHES: tuple[tuple[int, ...], ...] = ((1, 0), (7, 3), (2, 3), (9, 3, 2, 3))

SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")

REFERENCE_COLOUR = "#7a828c"
EDGE_SHAPES = {"diverged": "M-.55-.55L.55.55M.55-.55L-.55.55", "above": "arrow"}

INK, SOFT, AXIS, GRID = "#1c2126", "#545c65", "#b8bec6", "#e8ebee"

LOOK: dict[str, object] = {
    # No description for every single mark: Vega-Lite would write titles into expressions for it,
    # unescaped, and the page describes each chart as a whole.
    "aria": False,
    "view": {"stroke": None},
    "axis": {
        "domainColor": AXIS,
        "gridColor": GRID,
        "tickColor": AXIS,
        "tickCount": 6,
        "labelColor": INK,
        "labelFontSize": 11,
        "titleColor": SOFT,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "titlePadding": 8,
    },
    "axisY": {"minExtent": 30},  # the axis title stays where it is when zoom makes labels longer
    "legend": {
        "orient": "top",
        "direction": "horizontal",
        "columns": 5,
        "columnPadding": 18,
        "labelColor": INK,
        "labelFontSize": 12,
        "labelLimit": 260,
        "symbolSize": 120,
        "symbolStrokeWidth": 3,
        "titleColor": SOFT,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "titleLimit": 200,
        "titleOrient": "left",
        "titlePadding": 12,
    },
    "header": {"labelColor": INK, "labelFontSize": 12, "labelFontWeight": "bold"},
    "title": {"anchor": "start", "color": INK, "fontSize": 16, "offset": 12},
}

PANEL_HEIGHT = 260
PANEL_WIDTHS = {1: 640, 2: 380}
MANY_PANELS_WIDTH = 270
PANELS_PER_ROW = 3


def colours(names: Sequence[str], order: Sequence[str]) -> list[str]:
    """The colour of each name, by its place in ``order``; names outside it come after."""
    return [COLOURS[i % len(COLOURS)] for i in _places(names, order)]


def dashes(names: Sequence[str], order: Sequence[str]) -> list[list[int]]:
    """The dash of each name: solid for the first round of colours."""
    return [list(DASHES[i // len(COLOURS) % len(DASHES)]) for i in _places(names, order)]


def shapes(names: Sequence[str], order: Sequence[str]) -> list[str]:
    """The point shape of each name."""
    return [SHAPES[i % len(SHAPES)] for i in _places(names, order)]


def panel_width(panels: int) -> int:
    """Width of one panel in a picture, in pixels (a page fits panels to the window)."""
    return PANEL_WIDTHS.get(panels, MANY_PANELS_WIDTH)


def dressed(chart: Drawn) -> Drawn:
    """The same chart in normkit's look: light grid, no frame, legend above."""
    return chart.properties(config=LOOK)


def _places(names: Sequence[str], order: Sequence[str]) -> list[int]:
    known = list(dict.fromkeys([*order, *names]))
    return [known.index(name) for name in names]
