"""A tensor as numbered cells: elements that belong together in one colour, with one number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import altair as alt

from normkit.pages import style
from normkit.pages.plane import Plane, own_colour, rows

CELL, GAP, HEADING = 26, 14, 18
_EMPTY = "#e8ebee"
# Which ink is read best on each of style.COLOURS.
_INKS = ("#ffffff", "#ffffff", "#ffffff", "#1c2126", "#1c2126", "#1c2126")

Cell = Mapping[str, Any]


def grid_chart(cells: Sequence[Cell], *, title: str, caption: str = "") -> alt.LayerChart:
    """Draw one rectangle per cell.

    Args:
        cells: rows with ``band`` and ``panel`` (which panel, down and across), ``heading`` (of the
            panel), ``row`` and ``column`` (inside it) and ``statistic`` (a number, or None).
        title: stands over the drawing, ``caption`` under it in a softer colour.

    Example:
        >>> cell = {"band": 0, "panel": 0, "heading": "B0", "row": 0, "column": 0, "statistic": 7}
        >>> grid_chart([cell], title="one").to_dict()["layer"][0]["mark"]["type"]
        'rect'
    """
    placed = list(_placed(cells))
    plane = Plane(max(cell["x2"] for cell in placed), max(cell["y2"] for cell in placed))
    base = rows(placed)
    rect = base.mark_rect(stroke="#ffffff", strokeWidth=2, cornerRadius=4).encode(
        x=plane.x("x:Q"), x2="x2:Q", y=plane.y("y:Q"), y2="y2:Q", color=own_colour("fill:N")
    )  # fmt: skip
    number = base.mark_text(fontSize=12, fontWeight="bold").encode(
        x=plane.x("middle_x:Q"), y=plane.y("middle_y:Q"), text="label:N", color=own_colour("ink:N")
    )  # fmt: skip
    layers = [rect, number]
    headings = list(_headings(cells, placed))
    if headings:
        words = rows(headings).mark_text(
            align="left", baseline="bottom", fontSize=11, color=style.SOFT
        )
        layers.append(words.encode(x=plane.x("x:Q"), y=plane.y("y:Q"), text="heading:N"))
    return plane.finished(layers, title, caption)


def _placed(cells: Sequence[Cell]) -> Iterator[dict[str, Any]]:
    across = 1 + max(cell["column"] for cell in cells)
    down = 1 + max(cell["row"] for cell in cells)
    heading = HEADING if any(cell["heading"] for cell in cells) else 0
    for cell in cells:
        x = cell["panel"] * (across * CELL + GAP) + cell["column"] * CELL
        y = cell["band"] * (down * CELL + GAP + heading) + heading + cell["row"] * CELL
        number = cell["statistic"]
        hue = 0 if number is None else number % len(style.COLOURS)
        yield {
            "x": x,
            "x2": x + CELL,
            "y": y,
            "y2": y + CELL,
            "middle_x": x + CELL / 2,
            "middle_y": y + CELL / 2,
            "label": "" if number is None else str(number),
            "fill": _EMPTY if number is None else style.COLOURS[hue],
            "ink": style.INK if number is None else _INKS[hue],
        }


def _headings(cells: Sequence[Cell], placed: Sequence[Cell]) -> Iterator[dict[str, Any]]:
    for cell, place in zip(cells, placed, strict=True):
        if cell["row"] == 0 and cell["column"] == 0 and cell["heading"]:
            yield {"x": place["x"] + 1, "y": place["y"] - 3, "heading": cell["heading"]}
