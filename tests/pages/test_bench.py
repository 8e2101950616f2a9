"""The page of a benchmark, from a record written by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page as Tab

from normkit.pages import Axes, interval_chart, write_page
from normkit.pages.bench import bench_page, limit_chart, limit_charts, picture
from tests.pages.looking import points_drawn


def row(**values: Any) -> dict[str, Any]:
    """A row of times."""
    return {
        "op": "rms_norm", "implementation": "normkit", "mode": "forward", "dtype": "float32",
        "shape": "64x256", "threads": 2, "time_us_p20": 1.0, "time_us_p50": 2.0,
        "time_us_p80": 3.0, "limit_us": 1.5, "fraction_of_limit": 0.75, "to_torch": None,
        "ours": None, "moved_bytes": 2**20, "saved_bytes": None, **values,
    }  # fmt: skip


SWEEP = [
    row(shape=f"{rows}x{width}", implementation=name, fraction_of_limit=fraction)
    for rows in (4096, 64)
    for width in (256, 1024, 4096)
    for name, fraction in (("normkit", 0.9), ("torch", 0.2))
]
LONG_ROW = [row(op="layer_norm", shape="1x65536", threads=n) for n in (1, 2)]
PRODUCT = row(op="norm_linear", limit_us=None, fraction_of_limit=None)


def record(**values: Any) -> dict[str, Any]:
    """A record of a run."""
    return {
        "date": "2026-12-01T10:00:00+00:00", "machine": {"processor": "A"},
        "versions": {"torch": "2.13.0"}, "load": {"cores": 2, "signs": []},
        "times": [*SWEEP, *LONG_ROW, PRODUCT],
        "errors": [{"op": "rms_norm", "implementation": "torch", "mode": "forward",
                    "dtype": "float32", "regime": "huge", "value": "y", "worst_ulp": None,
                    "not_finite": 7}],
        "missing": ["openvino is missing: type pip install openvino"], "refused": [], **values,
    }  # fmt: skip


def test_what_the_page_holds() -> None:
    """Charts where there is a limit, all rows in the tables, what did not run."""
    page = bench_page(record())
    assert page.lead == "Measured on 2026-12-01 on A. "
    assert [chart.name for chart in page.charts] == ["limit", "rms-norm-forward-float32"]
    times, errors = page.tables
    assert len(times.rows) == len(SWEEP) + 3
    assert errors.rows[0]["not_finite"] == 7
    assert [group.title for group in page.details] == ["Machine", "Versions", "Load", "Not run"]


def test_load_is_said_first() -> None:
    """In the lead."""
    page = bench_page(record(load={"signs": ["one thing", "another"]}))
    assert page.lead.endswith("The machine was loaded: one thing; another.")


def values(chart: Any) -> list[str]:
    """Rows of the data block of a chart."""
    spec = chart.spec.to_dict()
    lines: list[str] = spec["datasets"][spec["data"]["name"]].splitlines()[1:]
    return lines


def test_width_and_rows() -> None:
    """A panel for each number of rows, the fewest first; a point for each width."""
    (chart,) = limit_charts([*SWEEP, *LONG_ROW, PRODUCT])
    lines = values(chart)
    panels = [line.split('"')[1] for line in lines]
    assert panels == ["rms_norm, 64 rows"] * 6 + ["rms_norm, 4096 rows"] * 6
    assert lines[0].startswith('normkit,"rms_norm, 64 rows",256,0.9,')
    assert chart.title == "rms_norm, forward, float32"


def test_no_chart_of_two_widths() -> None:
    """Two points are no sweep."""
    assert limit_charts([r for r in SWEEP if "x256" not in r["shape"]]) == []
    assert bench_page(record(times=[PRODUCT])).charts == []


def test_the_overview_takes_first_shapes_and_most_threads() -> None:
    """One point for each implementation of each op."""
    (chart, _) = bench_page(record()).charts
    lines = [line.split(",")[:4] for line in values(chart)]
    assert sorted(lines) == [
        ["normkit", "forward", "layer_norm float32", "0.75"],
        ["normkit", "forward", "rms_norm float32", "0.9"],
        ["torch", "forward", "rms_norm float32", "0.2"],
    ]


def test_unjoined_points_have_no_line() -> None:
    """And everything else."""
    axes = Axes(x="x", x_title="", x_scale="category", y="y", y_title="", series="s", seed=None)
    rows = [{"x": x, "y": 1.0, "s": "a"} for x in "pq"]
    kinds = [
        [
            layer["mark"]["type"]
            for layer in interval_chart(rows, axes=axes, name="n", title="t", joined=joined)
            .spec.to_dict()["layer"]
        ]
        for joined in (True, False)
    ]  # fmt: skip
    assert kinds[0] == ["line", *kinds[1]]


@pytest.mark.browser
def test_the_page_is_drawn(show: Callable[..., Tab], tmp_path: Path) -> None:
    """Every point of the sweep, points without lines side by side, and the tables."""
    tab = show(write_page(bench_page(record()), tmp_path / "bench.html"))
    drawn = points_drawn(tab, "rms-norm-forward-float32")
    assert (drawn["line normkit"], drawn["line torch"]) == (6, 6)
    assert "line normkit" not in points_drawn(tab, "limit")
    assert tab.locator("table").nth(0).locator("tbody tr").count() == len(SWEEP) + 3


def test_the_chart_is_one_of_plain_rows() -> None:
    """A record that went through JSON gives the same."""
    again = json.loads(json.dumps(SWEEP))
    charts = [limit_chart(rows, name="n", title="t").spec.to_dict() for rows in (SWEEP, again)]
    assert charts[0] == charts[1]


def test_picture() -> None:
    """One SVG with a panel for each op and number of rows."""
    both = [*SWEEP, *(row(**{**one, "op": "layer_norm"}) for one in SWEEP)]
    svg = picture(record(times=both))
    assert svg.startswith("<svg")
    for words in ("rms_norm, 64 rows", "layer_norm, 4096 rows", "(forward, float32)"):
        assert words in svg


def test_the_same_picture_each_time() -> None:
    """Whatever the process has drawn before."""
    assert picture(record(times=SWEEP)) == picture(record(times=SWEEP))
    assert 'id="clip1"' in picture(record(times=SWEEP))


def test_panels_stand_in_the_order_of_the_rows() -> None:
    """64 rows before 4096, where the alphabet has them the other way round."""
    svg = picture(record(times=SWEEP))
    assert svg.index("rms_norm, 64 rows") < svg.index("rms_norm, 4096 rows")
