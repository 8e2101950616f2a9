"""Drawings of plain records, one below the other, as one SVG document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from normkit.pages import style
from normkit.pages.diagram import diagram_chart
from normkit.pages.grid import grid_chart
from normkit.pages.pictures import svg_of
from normkit.pages.records import refuse

KINDS = {"tensor": ("cells", grid_chart), "diagram": ("tracks", diagram_chart)}


def draw(title: str, drawings: Sequence[Mapping[str, Any]]) -> str:
    """Draw records as SVG.

    Args:
        title: stands over everything.
        drawings: each with a ``kind`` and the records that its chart takes (``cells`` for a
            ``tensor``, ``tracks`` for a ``diagram``), a ``title``, and maybe a ``caption``.

    Example:
        >>> cell = {"band": 0, "panel": 0, "heading": "", "row": 0, "column": 0, "statistic": 0}
        >>> draw("LayerNorm", [{"kind": "tensor", "title": "one", "cells": [cell]}])[:4]
        '<svg'
    """
    charts = [_chart(drawing) for drawing in drawings]
    words = alt.TitleParams(text=title, anchor="start", color=style.INK, fontSize=18)
    whole = alt.vconcat(*charts, spacing=26).properties(title=words, config=style.LOOK)
    return svg_of(whole)


def _chart(drawing: Mapping[str, Any]) -> alt.LayerChart:
    kind = drawing["kind"]
    if kind not in KINDS:
        raise refuse(
            "draw", f"kind must be one of {', '.join(map(repr, KINDS))}", f"kind is {kind!r}"
        )
    records, chart = KINDS[kind]
    return chart(drawing[records], title=drawing["title"], caption=drawing.get("caption", ""))
