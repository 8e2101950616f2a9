"""How values are written in tables and lists."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real

from normkit.pages.records import Table

MISSING = "\u2013"
MOST_DECIMALS = 4


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A cell as it is shown, and the number by which a numeric column sorts (none: last)."""

    text: str
    numeric: bool
    value: str = ""


@dataclass(frozen=True, kw_only=True)
class ShownTable:
    """A table whose values are texts; ``headings`` are cells without a value."""

    title: str
    caption: str
    headings: tuple[Cell, ...]
    rows: tuple[tuple[Cell, ...], ...]


def plain(value: object) -> str:
    """Write a value in full for a list of names and values: a dash for nothing.

    Example:
        >>> plain(1.5), plain(0.001), plain(12345678), plain(True), plain((2, 12))
        ('1.5', '0.001', '12,345,678', 'yes', '2, 12')
    """
    if value is None or value == "":
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list | tuple):
        return ", ".join(plain(part) for part in value)
    return str(value)


def column(values: Sequence[object]) -> list[str]:
    """Write the numbers of a column to 4 digits, with as many decimals as the finest needs.

    Example:
        >>> column([1.5, 2.0512, None]), column([0.001, 3e-4]), column([81234.5, 12])
        (['1.500', '2.051', '\u2013'], ['0.0010', '0.0003'], ['81,234', '12'])
    """
    finite = [float(v) for v in values if isinstance(v, Real) and math.isfinite(v)]
    short = [f"{v:.4g}" for v in finite]
    decimals = max((len(text.partition(".")[2]) for text in short), default=0)
    aligned = decimals <= MOST_DECIMALS and not any("e" in text for text in short)
    return [_number(v, decimals if aligned else None) for v in values]


def shown(table: Table) -> ShownTable:
    """Write every value; a column is numeric when it holds numbers and nothing else."""
    columns = [_column([row.get(key) for row in table.rows]) for key in table.columns]
    return ShownTable(
        title=table.title,
        caption=table.caption,
        headings=tuple(
            Cell(text=heading, numeric=bool(cells) and cells[0].numeric)
            for heading, cells in zip(table.columns.values(), columns, strict=True)
        ),
        rows=tuple(zip(*columns, strict=True)),
    )


def _column(values: Sequence[object]) -> list[Cell]:
    if not _is_numeric(values):
        return [Cell(text=plain(value), numeric=False) for value in values]
    return [
        Cell(text=text, numeric=True, value=_sort_value(value))
        for text, value in zip(column(values), values, strict=True)
    ]


def _is_numeric(values: Sequence[object]) -> bool:
    given = [value for value in values if value is not None]
    return bool(given) and all(isinstance(v, Real) and not isinstance(v, bool) for v in given)


def _sort_value(value: object) -> str:
    return repr(float(value)) if isinstance(value, Real) and math.isfinite(value) else ""


def _number(value: object, decimals: int | None) -> str:
    if isinstance(value, int) or not isinstance(value, Real):
        return plain(value)
    number = float(value)
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "\u221e" if number > 0 else "\u2212\u221e"
    if decimals is not None:
        return f"{number:,.{decimals}f}"
    return f"{number:,.0f}" if 1000 <= abs(number) < 1e9 else f"{number:#.4g}"
