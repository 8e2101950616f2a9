"""The page as a file: one, small, whole, the same every time, and safe."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

import normkit.pages.writing
from normkit.pages import Page, loss_curves, write_page
from normkit.pages.writing import render, spec_text, written_aside
from tests.pages import hostile, samples

MOST_BYTES = 5_000_000


class Elements(HTMLParser):
    """The elements of a page, with their attributes, and the text outside of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep the element."""
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        """Keep the text."""
        if not self.found or self.found[-1][0] not in ("script", "style"):
            self.text += data

    def count(self, tag: str) -> int:
        """How many elements of this kind there are."""
        return sum(name == tag for name, _ in self.found)


def test_page_is_one_file(tmp_path: Path) -> None:
    """The folder holds the page and nothing else, and the page refers to nothing else."""
    path = write_page(samples.page(), tmp_path / "new" / "page.html")
    assert list(path.parent.iterdir()) == [path]
    page = Elements(path.read_text(encoding="utf-8"))
    assert [a for _, a in page.found if "src" in a] == []
    assert {a["href"] for name, a in page.found if "href" in a} == {
        "data:,",
        "https://arxiv.org/abs/2003.07845",
    }
    assert page.count("script") == len(samples.charts()) + 2  # the library once, our own once


def test_order_of_reading(tmp_path: Path) -> None:
    """Verdicts first, with their words; then charts, tables, details."""
    text = render(samples.page())
    places = [
        text.index(mark)
        for mark in (
            "<h1>Which norm",
            '<article class="verdict" data-verdict="holds">',
            '<p class="word">\u2713 holds</p>',
            '<p class="word">? undecided</p>',
            '<figure class="chart" id="loss">',
            '<figure class="chart" id="depth">',
            '<section class="table">',
            "<summary>Configuration</summary>",
        )
    ]
    assert places == sorted(places)


def test_same_page_same_bytes(tmp_path: Path) -> None:
    """Written twice, and in another process with other hashes, the charts are the same."""
    first = write_page(samples.page(), tmp_path / "1.html").read_bytes()
    assert write_page(samples.page(), tmp_path / "2.html").read_bytes() == first
    code = (
        "import sys; from normkit.pages.writing import spec_text; from tests.pages import samples\n"
        "sys.stdout.buffer.write(''.join(map(spec_text, samples.charts(range(9)))).encode())"
    )
    there = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        check=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONHASHSEED": "7"},
    )
    assert there.stdout == "".join(map(spec_text, samples.charts(range(9)))).encode()


def test_size_of_a_long_comparison(tmp_path: Path) -> None:
    """45 runs of 4000 steps, each step recorded."""
    rows = samples.training_rows(range(4000), placements=("post", "pre", "deepnorm"))
    assert len(rows) == 45 * 4000
    chart = loss_curves(rows, axes=samples.LOSS_AXES, name="loss", title="Loss")
    assert write_page(Page(title="Long", charts=[chart]), tmp_path / "p").stat().st_size < 1.5e6


def test_size_of_hundreds_of_curves(tmp_path: Path) -> None:
    """Four charts of 300 curves each."""
    rows = [
        {"norm": f"norm_{i}", "placement": "post", "seed": 0, "step": s, "value": 1 / (1 + s) + i}
        for i in range(300)
        for s in range(400)
    ]
    chart = loss_curves(rows, axes=samples.LOSS_AXES, name="loss", title="Loss")
    charts = [replace(chart, name=f"loss-{i}") for i in range(4)]
    size = write_page(Page(title="Many", charts=charts), tmp_path / "p").stat().st_size
    assert size < MOST_BYTES


def test_hostile_texts_stay_texts() -> None:
    """They make no element and end no script; every one of them can be read."""
    text = render(hostile.page())
    page = Elements(text)
    assert page.count("img") == 0
    assert page.count("script") == 3
    assert "window.hacked = 1</script>" not in text
    assert not [a for _, a in page.found if any(name.startswith("on") for name in a)]
    links = [a["href"] for name, a in page.found if name == "a"]
    assert links
    assert all(link is not None and link.startswith("https://") for link in links)
    for shown in (hostile.SCRIPT, hostile.IMAGE, hostile.CLOSING):
        assert shown in page.text


def test_data_in_the_page_ends_no_script() -> None:
    """In the chart's JSON there is no '<' at all."""
    (chart,) = hostile.page().charts
    assert "<" not in spec_text(chart)
    assert "\\u003c/script" in spec_text(chart)


def test_no_network_is_allowed_by_the_page_itself() -> None:
    """Even a mistake of ours could not load anything."""
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', render(Page(title="T")))
    assert policy
    assert policy[1].startswith("default-src 'none';")
    assert "http" not in policy[1]


def test_a_page_without_charts_has_no_library() -> None:
    """It is a few kilobytes."""
    assert len(render(Page(title="Nothing"))) < 20_000


def test_a_failed_write_leaves_the_old_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old page stays whole, and no half file stays behind."""
    path = write_page(Page(title="Old"), tmp_path / "page.html")
    old = path.read_bytes()

    def broken(page: Page) -> str:
        raise RuntimeError("no")

    monkeypatch.setattr(normkit.pages.writing, "render", broken)
    with pytest.raises(RuntimeError, match=r"^no$"):
        write_page(Page(title="New"), path)
    assert path.read_bytes() == old
    assert list(tmp_path.iterdir()) == [path]


def test_written_aside(tmp_path: Path) -> None:
    """The target changes only when the block ends; a block that fails leaves nothing."""
    target = tmp_path / "a.txt"
    target.write_text("old")
    with written_aside(target) as aside:
        aside.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"

    def fail() -> None:
        with written_aside(target) as aside:
            aside.write_text("half")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert [path.read_text() for path in tmp_path.iterdir()] == ["new"]
