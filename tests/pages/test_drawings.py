"""Drawings of plain records: one mark for each, in their places and colours."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import pytest

from normkit.pages import style
from normkit.pages.diagram import diagram_chart
from normkit.pages.drawings import draw
from normkit.pages.grid import CELL, grid_chart


def cell(row: int, column: int, statistic: int | None, **rest: Any) -> dict[str, Any]:
    """A cell of the first panel."""
    found = {"band": 0, "panel": 0, "heading": "B0", "row": row, "column": column}
    return {**found, "statistic": statistic, **rest}


def data(chart: Any, layer: int) -> list[dict[str, Any]]:
    """The records behind a layer of a chart."""
    spec = chart.to_dict()
    source = spec["layer"][layer].get("data", spec.get("data"))
    found: list[dict[str, Any]] = (
        source["values"] if "values" in source else spec["datasets"][source["name"]]
    )
    return found


def test_cells() -> None:
    """Each cell has its place, its number, and the colour of its number."""
    chart = grid_chart([cell(0, 0, 0), cell(0, 1, 7), cell(1, 0, None)], title="t")
    first, second, third = data(chart, 0)
    assert second["x"] - first["x"] == CELL
    assert third["y"] - first["y"] == CELL
    assert [one["label"] for one in (first, second, third)] == ["0", "7", ""]
    assert first["fill"] == style.COLOURS[0]
    assert second["fill"] == style.COLOURS[1]
    assert third["fill"] not in style.COLOURS


def test_panels_do_not_touch() -> None:
    """Panels stand apart, side by side and one below the other, each under its heading."""
    cells = [cell(0, 0, 0), cell(0, 0, 1, panel=1, heading="B1"), cell(0, 0, 2, band=1)]
    chart = grid_chart(cells, title="t")
    first, right, below = data(chart, 0)
    assert right["x"] > first["x2"]
    assert below["y"] > first["y2"]
    assert [one["heading"] for one in data(chart, 2)] == ["B0", "B1", "B0"]


def test_diagram_boxes() -> None:
    """Boxes stand in order and do not overlap; the skip leads from the fork to the sum."""
    nodes = [
        {"kind": "end", "text": "x"},
        {"kind": "norm", "text": "N"},
        {"kind": "part", "text": "attention"},
        {"kind": "sum", "text": "+"},
        {"kind": "end", "text": "x"},
    ]
    track = {"title": "attention", "nodes": nodes, "skip": "* alpha", "second": None}
    chart = diagram_chart([track], title="t")
    norm, part, plus, scale = data(chart, 2)
    assert norm["x2"] < part["x"] < part["x2"] < plus["x"]
    assert scale["y"] > plus["y2"] - 20
    down, across, up = data(chart, 0)[-3:]
    assert down["x"] < norm["x"]
    assert across["x2"] == up["x"] == (plus["x"] + plus["x2"]) / 2


def test_tracks_do_not_overlap() -> None:
    """The second stream and the next track stand below."""
    nodes = [
        {"kind": "end", "text": "x"},
        {"kind": "part", "text": "f"},
        {"kind": "sum", "text": "+"},
        {"kind": "end", "text": "x"},
    ]
    track = {"title": "one", "nodes": nodes, "skip": "", "second": ""}
    boxes = data(diagram_chart([track, track], title="t"), 2)
    f, _, second, other, *_ = boxes
    assert f["y2"] < second["y"] < second["y2"] < other["y"]


def test_draw_is_xml() -> None:
    """Words with signs that XML gives a meaning stay words."""
    drawing = {"kind": "tensor", "title": "a < b & c", "caption": '"q"', "cells": [cell(0, 0, 0)]}
    root = ET.fromstring(draw("<title>", [drawing]))
    words = [element.text for element in root.iter() if element.tag.endswith("text")]
    assert {"<title>", "a < b & c", '"q"', "0", "B0"} <= set(words)


def test_unknown_kind() -> None:
    """A kind that has no chart is refused."""
    with pytest.raises(ValueError, match="kind must be one of 'tensor', 'diagram'; kind is 'pie'"):
        draw("t", [{"kind": "pie", "title": ""}])
