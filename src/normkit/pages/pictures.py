"""Charts as PNG and SVG files."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from normkit.pages.records import Chart, Page
from normkit.pages.writing import written_aside

# Two pixels for each one of the chart: sharp on today's screens and in print.
PNG_SCALE = 2


def write_pictures(
    charts: Page | Iterable[Chart], folder: str | os.PathLike[str]
) -> tuple[Path, ...]:
    """Write NAME.png and NAME.svg for every chart and return the paths.

    Example:
        >>> write_pictures(Page(title="Nothing yet"), ".")
        ()
    """
    if isinstance(charts, Page):
        charts = charts.charts
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    return tuple(
        _write(chart, target / f"{chart.name}.{kind}") for chart in charts for kind in KINDS
    )


KINDS = ("png", "svg")


def svg_of(spec: Any) -> str:
    """An Altair chart as SVG, the same each time.

    Vega numbers clipping areas on through all that a process draws; here each drawing begins at 1.
    """
    found = io.StringIO()
    spec.save(found, format="svg")
    numbers: dict[str, str] = {}

    def renamed(name: re.Match[str]) -> str:
        return numbers.setdefault(name[0], f"clip{len(numbers) + 1}")

    return re.sub(r"\bclip\d+\b", renamed, found.getvalue())


def _write(chart: Chart, path: Path) -> Path:
    with written_aside(path) as aside:
        if path.suffix == ".svg":
            aside.write_text(svg_of(chart.spec), encoding="utf-8")
        else:
            chart.spec.save(str(aside), scale_factor=PNG_SCALE)
    return path
