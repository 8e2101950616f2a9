"""Values in tables and lists."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from normkit.pages import Table
from normkit.pages.cells import column, plain, shown


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "\u2013"),
        ("", "\u2013"),
        (True, "yes"),
        (False, "no"),
        (12_345, "12,345"),
        (0.0003, "0.0003"),
        ([2, 12, "x"], "2, 12, x"),
    ],
)
def test_plain(value: object, text: str) -> None:
    """Values of a configuration are written in full."""
    assert plain(value) == text


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([1.5, 2.0512, None], ["1.500", "2.051", "\u2013"]),
        ([0.001, 3e-4], ["0.0010", "0.0003"]),
        ([1e-6, 2.0], ["1.000e-06", "2.000"]),
        ([81_234.5, 12], ["81,234", "12"]),
        ([math.nan, math.inf, -math.inf], ["NaN", "\u221e", "\u2212\u221e"]),
        ([2, 48], ["2", "48"]),
    ],
)
def test_column(values: Sequence[object], texts: list[str]) -> None:
    """The numbers of a column have as many decimals as the finest needs."""
    assert column(values) == texts


def test_table() -> None:
    """Numbers are on the right and sort as numbers; a column with a word is text."""
    table = Table(
        title="T",
        columns={"a": "A", "b": "B", "c": "C"},
        rows=[{"a": 1.25, "b": 2, "c": "x"}, {"a": None, "b": math.inf, "c": 3}],
    )
    written = shown(table)
    assert [(cell.text, cell.numeric) for cell in written.headings] == [
        ("A", True),
        ("B", True),
        ("C", False),
    ]
    assert [[(c.text, c.value) for c in row] for row in written.rows] == [
        [("1.25", "1.25"), ("2", "2.0"), ("x", "")],
        [("\u2013", ""), ("\u221e", ""), ("3", "")],
    ]


def test_table_without_rows() -> None:
    """Headings stand alone."""
    assert shown(Table(title="T", columns={"a": "A"}, rows=[])).rows == ()
