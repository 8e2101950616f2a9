"""The page of a benchmark: times against the memory limit, and errors, from its record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from normkit.pages.intervals import interval_chart
from normkit.pages.pictures import svg_of
from normkit.pages.records import Axes, Chart, Details, Page, Reference, Table

Row = Mapping[str, Any]

TIME_COLUMNS = {
    "op": "op",
    "mode": "mode",
    "dtype": "dtype",
    "shape": "shape",
    "threads": "threads",
    "implementation": "implementation",
    "time_us_p20": "p20 (us)",
    "time_us_p50": "p50 (us)",
    "time_us_p80": "p80 (us)",
    "limit_us": "limit (us)",
    "fraction": "fraction of limit",
    "to_torch": "faster than torch",
    "ours": "normkit is faster",
    "moved_MiB": "must move (MiB)",
    "saved_MiB": "saved (MiB)",
}
ERROR_COLUMNS = {
    "op": "op",
    "mode": "mode",
    "dtype": "dtype",
    "implementation": "implementation",
    "value": "value",
    "regime": "regime",
    "worst_ulp": "worst error (ulp)",
    "not_finite": "NaN or Inf",
}
LIMIT = Reference(value=1.0, label="memory limit")


def bench_page(record: Row) -> Page:
    """Build the page from what ``normkit bench --json`` writes.

    Example:
        >>> nothing = {"date": "2026-01-01", "machine": {}, "versions": {}, "times": [],
        ...            "errors": [], "load": {"signs": []}, "missing": [], "refused": []}
        >>> bench_page(nothing).title
        'Norms, timed'
    """
    notes = [*record["missing"], *record["refused"]]
    return Page(
        title="Norms, timed",
        lead=_lead(record),
        charts=_charts(record["times"]),
        tables=[_times(record["times"]), _errors(record["errors"])],
        details=[
            Details(title="Machine", items=record["machine"]),
            Details(title="Versions", items=record["versions"]),
            Details(title="Load", items={k: v for k, v in record["load"].items() if k != "signs"}),
            *([Details(title="Not run", items=_numbered(notes))] if notes else []),
        ],
    )


def limit_chart(rows: Sequence[Row], *, name: str, title: str, caption: str = "") -> Chart:
    """Fraction of the memory limit over the width, one panel for each op and number of rows.

    Args:
        rows: times of one mode and dtype at shapes of two axes, with a limit.
    """
    ops = list(dict.fromkeys(row["op"] for row in rows))
    drawn = [
        {
            "width": _size(row, 1),
            "panel": f"{row['op']}, {_size(row, 0)} rows",
            "implementation": row["implementation"],
            "fraction": row["fraction_of_limit"],
        }
        for row in sorted(rows, key=lambda row: (ops.index(row["op"]), _size(row, 0)))
    ]
    axes = Axes(
        x="width",
        x_title="width",
        x_scale="log",
        y="fraction",
        y_title="fraction of the memory limit",
        series="implementation",
        facet="panel",
        seed=None,
    )
    return interval_chart(
        drawn, axes=axes, name=name, title=title, caption=caption, references=[LIMIT]
    )


def limit_charts(rows: Sequence[Row]) -> list[Chart]:
    """A chart over width and rows for each op, mode and dtype that ran at three widths or more."""
    return [
        limit_chart(
            group,
            name="-".join(key).replace("_", "-"),
            title=f"{key[0]}, {key[1].replace('_', ' + ')}, {key[2]}",
        )
        for key, group in _groups(rows).items()
        if len({row["shape"].split("x")[1] for row in group}) >= 3
    ]


def picture(record: Row) -> str:
    """One SVG of a record whose rows are one mode and dtype over widths and numbers of rows."""
    rows = [row for group in _groups(record["times"]).values() for row in group]
    what = f"{rows[0]['mode'].replace('_', ' + ')}, {rows[0]['dtype']}"
    title = f"Speed as a fraction of the memory limit ({what})"
    return svg_of(limit_chart(rows, name="bench", title=title).spec)


def _size(row: Row, axis: int) -> int:
    return int(row["shape"].split("x")[axis])


def _charts(rows: Sequence[Row]) -> list[Chart]:
    swept = limit_charts(rows)
    return [*_overview(rows), *swept]


def _overview(rows: Sequence[Row]) -> list[Chart]:
    """Every cell side by side: fraction of the limit by implementation, a panel for each mode."""
    most = {_cell(row): row["threads"] for row in sorted(rows, key=lambda row: row["threads"])}
    drawn = [
        {
            "cell": f"{row['op']} {row['dtype']}",
            "mode": row["mode"].replace("_", " + "),
            "implementation": row["implementation"],
            "fraction": row["fraction_of_limit"],
        }
        for row in _first_shapes(rows)
        if row["fraction_of_limit"] is not None and row["threads"] == most[_cell(row)]
    ]
    if not drawn:
        return []
    axes = Axes(
        x="cell",
        x_title="",
        x_scale="category",
        y="fraction",
        y_title="fraction of the memory limit",
        series="implementation",
        facet="mode",
        seed=None,
    )
    chart = interval_chart(
        drawn,
        axes=axes,
        name="limit",
        title="How near to the memory limit",
        caption="1 is as fast as a copy that moves the same bytes; higher is faster.",
        references=[LIMIT],
        joined=False,
    )
    return [chart]


def _first_shapes(rows: Sequence[Row]) -> list[Row]:
    """Rows of the first shape of each op, mode and dtype."""
    first: dict[tuple[str, ...], str] = {}
    for row in rows:
        first.setdefault(_key(row), row["shape"])
    return [row for row in rows if row["shape"] == first[_key(row)]]


def _groups(rows: Sequence[Row]) -> dict[tuple[str, ...], list[Row]]:
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        if row["fraction_of_limit"] is not None and row["shape"].count("x") == 1:
            found.setdefault(_key(row), []).append(row)
    return found


def _key(row: Row) -> tuple[str, ...]:
    return (row["op"], row["mode"], row["dtype"])


def _cell(row: Row) -> tuple[str, ...]:
    return (*_key(row), row["shape"])


def _times(rows: Sequence[Row]) -> Table:
    shown = [
        {
            **row,
            "fraction": row["fraction_of_limit"],
            "to_torch": ratio_words(row["to_torch"]),
            "ours": ratio_words(row["ours"]),
            "moved_MiB": row["moved_bytes"] / 2**20,
            "saved_MiB": None if row["saved_bytes"] is None else row["saved_bytes"] / 2**20,
        }
        for row in rows
    ]
    caption = (
        "Times of one call. The limit is what a copy that allocates its output needs, in the same "
        "rounds, for the bytes that must move."
    )
    return Table(title="Times", columns=TIME_COLUMNS, rows=shown, caption=caption)


def _errors(rows: Sequence[Row]) -> Table:
    caption = (
        "Against float64, in units in the last place at the largest value of the row. A dash is an "
        "error without end: NaN or infinity where the truth is finite."
    )
    return Table(title="Errors", columns=ERROR_COLUMNS, rows=rows, caption=caption)


def ratio_words(ratio: Row | None) -> str | None:
    """``3.21x``, or ``no difference``; nothing for nothing.

    Example:
        >>> ratio_words({"p50": 3.214, "differs": True}), ratio_words(None)
        ('3.21x', None)
    """
    if ratio is None:
        return None
    return f"{ratio['p50']:.2f}x" if ratio["differs"] else "no difference"


def _lead(record: Row) -> str:
    words = f"Measured on {record['date'][:10]}"
    if "processor" in record["machine"]:
        words += f" on {record['machine']['processor']}"
    signs = record["load"]["signs"]
    return f"{words}. " + (f"The machine was loaded: {'; '.join(signs)}." if signs else "")


def _numbered(texts: Sequence[str]) -> dict[str, object]:
    return {str(number): text for number, text in enumerate(texts, 1)}
