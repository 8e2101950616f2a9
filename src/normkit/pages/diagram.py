"""Boxes on a line, with a skip around them: a residual block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import altair as alt

from normkit.pages import style
from normkit.pages.plane import Plane, own_colour, rows

HEIGHT, GAP, TITLE, SKIP, SECOND = 30, 26, 30, 44, 40
_CHARACTER = 7.2
_PADDING = 20
_FILLS = {
    "norm": style.COLOURS[0],
    "part": "#e8ebee",
    "scale": "#fdeedd",
    "sum": "#ffffff",
}
_LINE = "#545c65"

Track = Mapping[str, Any]


def diagram_chart(tracks: Sequence[Track], *, title: str, caption: str = "") -> alt.LayerChart:
    """Draw tracks one below the other.

    Args:
        tracks: each with a ``title``, ``nodes`` (``kind``: end, norm, part, scale or sum; and
            ``text``), a ``skip`` (the text on the line around the branch; None: there is none), and
            a ``second`` (the text on what the second stream takes; None: there is none).
        title: stands over the drawing, ``caption`` under it in a softer colour.

    Example:
        >>> nodes = [{"kind": "end", "text": "x"}, {"kind": "norm", "text": "N"}]
        >>> track = {"title": "model", "nodes": nodes, "skip": None, "second": None}
        >>> len(diagram_chart([track], title="one").to_dict()["layer"])
        5
    """
    marks = _Marks()
    y = 0.0
    for track in tracks:
        y = marks.add(track, y)
    plane = Plane(max(box["x2"] for box in marks.boxes) + 4, y)
    at = {"x": plane.x("x:Q"), "y": plane.y("y:Q")}
    to: dict[str, Any] = {**at, "x2": "x2:Q", "y2": "y2:Q"}
    ink = own_colour("ink:N")
    arrows = rows(marks.arrows).mark_point(
        shape="triangle-right", filled=True, size=60, color=_LINE, opacity=1
    )
    boxes = rows(marks.boxes).mark_rect(cornerRadius=6, stroke=_LINE, strokeWidth=1)
    titles = rows(marks.titles).mark_text(align="left", fontSize=12, fontWeight="bold")
    layers = [
        rows(marks.lines).mark_rule(color=_LINE, strokeWidth=1.5).encode(**to),
        arrows.encode(**at),
        boxes.encode(**to, color=own_colour("fill:N")),
        rows(marks.texts).mark_text(fontSize=12).encode(**at, text="text:N", color=ink),
        titles.encode(**at, text="text:N", color=ink),
    ]
    return plane.finished(layers, title, caption)


class _Marks:
    """The marks of all tracks, in pixels."""

    def __init__(self) -> None:
        self.boxes: list[dict[str, Any]] = []
        self.lines: list[dict[str, Any]] = []
        self.arrows: list[dict[str, Any]] = []
        self.texts: list[dict[str, Any]] = []
        self.titles: list[dict[str, Any]] = []

    def add(self, track: Track, top: float) -> float:
        """Draw a track from ``top`` down and return where it ends."""
        self.titles.append({"x": 0, "y": top + 10, "text": track["title"], "ink": style.SOFT})
        middle = top + TITLE + HEIGHT / 2
        places = list(_places(track["nodes"]))
        for node, (left, right) in zip(track["nodes"], places, strict=True):
            self._node(node, left, right, middle)
        for (_, left), (right, _) in pairwise(places):
            self.lines.append({"x": left, "y": middle, "x2": right, "y2": middle})
        self.arrows.append({"x": places[-1][0] - 4, "y": middle})
        bottom = middle + HEIGHT / 2
        if track["skip"] is None:
            return bottom + GAP
        fork = (places[0][1] + places[1][0]) / 2
        join = next(
            (left + right) / 2
            for node, (left, right) in zip(track["nodes"], places, strict=True)
            if node["kind"] == "sum"
        )
        self._skip(track["skip"], fork, join, middle)
        bottom += SKIP
        if track["second"] is not None:
            self._second(track["second"], places, join, bottom)
            bottom += SECOND
        return bottom + GAP

    def _node(self, node: Mapping[str, str], left: float, right: float, middle: float) -> None:
        kind = node["kind"]
        ink = "#ffffff" if kind == "norm" else style.INK
        self.texts.append({"x": (left + right) / 2, "y": middle, "text": node["text"], "ink": ink})
        if kind != "end":
            half = HEIGHT / 2
            self.boxes.append(
                {"x": left, "x2": right, "y": middle - half, "y2": middle + half,
                 "fill": _FILLS[kind]}
            )  # fmt: skip

    def _skip(self, text: str, fork: float, join: float, middle: float) -> None:
        low = middle + SKIP
        self.lines += [
            {"x": fork, "y": middle, "x2": fork, "y2": low},
            {"x": fork, "y": low, "x2": join, "y2": low},
            {"x": join, "y": low, "x2": join, "y2": middle + HEIGHT / 2},
        ]
        if text:
            half = _width(text) / 2
            centre = (fork + join) / 2
            box = {"kind": "scale", "text": text}
            self._node(box, centre - half, centre + half, low)

    def _second(
        self, text: str, places: Sequence[tuple[float, float]], join: float, top: float
    ) -> None:
        y = top + SECOND / 2
        left, right = places[0], places[-1]
        words = f"+ {text} branch" if text else "+ branch"
        for (start, end), name in ((left, "s"), (right, "s")):
            self._node({"kind": "end", "text": name}, start, end, y)
        self.lines.append({"x": left[1], "y": y, "x2": right[0], "y2": y})
        self.arrows.append({"x": right[0] - 4, "y": y})
        half = _width(words) / 2
        self._node({"kind": "sum", "text": words}, join - half, join + half, y)


def _places(nodes: Sequence[Mapping[str, str]]) -> Iterator[tuple[float, float]]:
    """Where each box begins and ends."""
    x = 0.0
    for node in nodes:
        width = HEIGHT if node["kind"] in ("norm", "sum") else _width(node["text"])
        yield x, x + width
        x += width + GAP


def _width(text: str) -> float:
    return _PADDING + _CHARACTER * len(text)
