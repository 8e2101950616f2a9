"""The page in a Chromium: from a file, without network, and everything on it works."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path

import altair as alt
import pytest
from playwright.sync_api import Page as Tab

from normkit.pages import Chart, Page, loss_curves, write_page, write_pictures
from normkit.pages.style import COLOURS
from tests.pages import hostile, samples
from tests.pages.looking import (
    axis_ends,
    legend_place,
    point_place,
    points_drawn,
    settle,
    tooltip,
)

pytestmark = pytest.mark.browser

Show = Callable[..., Tab]


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample page as a file."""
    return write_page(samples.page(), tmp_path_factory.mktemp("page") / "page.html")


def test_every_chart_draws_all_its_points(show: Show, sample: Path) -> None:
    """Lines with all points, bands, crosses where runs diverged, bars and points of settings."""
    tab = show(sample)
    assert tab.locator("figure.chart canvas").count() == 3
    loss = points_drawn(tab, "loss")
    assert loss["line layer_norm"] == 200  # 100 steps in each of two panels
    assert loss["area layer_norm"] == 200
    assert loss["diverged no_norm"] == 2
    depth = points_drawn(tab, "depth")
    assert [depth[f"line {p}"] for p in ("post", "pre", "deepnorm")] == [5, 5, 5]
    assert [depth[f"rule {p}"] for p in ("post", "pre", "deepnorm")] == [5, 5, 5]
    assert depth["diverged post"] == 1
    batch = points_drawn(tab, "batch")
    assert (batch["line layer_norm"], batch["line no_norm"], batch["above no_norm"]) == (3, 2, 1)


@pytest.mark.parametrize(("name", "label"), [("loss", "batch_norm"), ("depth", "post")])
def test_legend_turns_a_series_off_and_on(show: Show, sample: Path, name: str, label: str) -> None:
    """A click removes the series and nothing else; a second click brings it back."""
    tab = show(sample)
    before = points_drawn(tab, name)
    assert f"line {label}" in before
    tab.locator(f"#{name} canvas").scroll_into_view_if_needed()
    tab.mouse.click(*legend_place(tab, name, label))
    settle(tab, name)
    rest = {key: count for key, count in before.items() if key.split()[1] != label}
    assert points_drawn(tab, name) == rest
    tab.mouse.click(*legend_place(tab, name, label))
    settle(tab, name)
    assert points_drawn(tab, name) == before


def test_wheel_zooms_drag_moves_double_click_resets(show: Show, sample: Path) -> None:
    """All panels follow, since they share their axes."""
    tab = show(sample)
    canvas = tab.locator("#loss canvas")
    canvas.scroll_into_view_if_needed()
    whole = axis_ends(tab, "loss")
    x, y = point_place(tab, "loss", {"series": "layer_norm", "panel": "post", "x": 500})
    tab.mouse.move(x, y - 2)
    tab.mouse.move(x, y)
    tab.mouse.wheel(0, -300)
    tab.wait_for_function(
        "(end) => document.getElementById('loss').drawn.view.scale('x').domain()[1] < end",
        arg=whole[0][1],
    )
    near = axis_ends(tab, "loss")
    for (low, high), (low_before, high_before) in zip(near, whole, strict=True):
        assert low_before < low < high < high_before
    tab.mouse.down()
    tab.mouse.move(x + 60, y, steps=5)
    tab.mouse.up()
    settle(tab, "loss")
    moved = axis_ends(tab, "loss")
    assert moved[0][0] < near[0][0]
    assert moved[0][1] - moved[0][0] == pytest.approx(near[0][1] - near[0][0])
    tab.mouse.dblclick(x, y)
    settle(tab, "loss")
    assert axis_ends(tab, "loss") == whole


def test_scrolling_past_a_chart_scrolls_the_page(show: Show, sample: Path) -> None:
    """The wheel belongs to the page until the pointer has moved inside the chart."""
    tab = show(sample)
    whole = axis_ends(tab, "loss")
    box = tab.locator("#loss canvas").bounding_box()
    assert box
    # The chart comes under the resting pointer by scrolling.
    tab.mouse.move(box["x"] + 200, 300)
    tab.mouse.wheel(0, box["y"] - 200)
    tab.wait_for_function("() => window.scrollY > 100")
    there = tab.evaluate("() => window.scrollY")
    tab.mouse.wheel(0, 120)
    tab.wait_for_function("(there) => window.scrollY > there", arg=there)
    assert axis_ends(tab, "loss") == whole


def test_pointing_at_a_curve_shows_its_values(show: Show, sample: Path) -> None:
    """The names and the numbers of the point, not of anything else."""
    rows = [
        row["value"]
        for row in samples.training_rows(range(0, 1000, 10))
        if (row["norm"], row["placement"], row["step"]) == ("batch_norm", "pre", 300)
    ]
    tab = show(sample)
    tab.locator("#loss canvas").scroll_into_view_if_needed()
    x, y = point_place(tab, "loss", {"series": "batch_norm", "panel": "pre", "x": 300})
    tab.mouse.move(x, y - 2)
    tab.mouse.move(x, y)
    assert tooltip(tab) == {
        "norm": "batch_norm",
        "placement": "pre",
        "training step": "300",
        "validation loss (nats/character)": f"{sum(rows) / 3:.5g}".rstrip("0"),
        "lowest seed": f"{min(rows):.5g}".rstrip("0"),
        "highest seed": f"{max(rows):.5g}".rstrip("0"),
        "seeds": "3",
    }


def test_pointing_at_a_setting_and_at_a_cross(show: Show, sample: Path) -> None:
    """A category is shown by its name, a cross says which seeds diverged."""
    tab = show(sample)
    tab.locator("#batch canvas").scroll_into_view_if_needed()
    x, y = point_place(tab, "batch", {"series": "rms_norm", "x": "4"})
    tab.mouse.move(x, y - 2)
    tab.mouse.move(x, y)
    lines = tooltip(tab)
    assert (lines["norm"], lines["batch size (lines)"], lines["seeds"]) == ("rms_norm", "4", "3")
    tab.locator("#depth canvas").scroll_into_view_if_needed()
    x, y = point_place(tab, "depth", {"kind": "diverged"})
    tab.mouse.move(x, y - 2)
    tab.mouse.move(x, y)
    tab.wait_for_function(
        "() => document.getElementById('vg-tooltip-element').textContent.includes('diverged')"
    )
    assert "diverged, seeds 0, 1" in tooltip(tab).values()


def test_table_sorts_by_a_click(show: Show, sample: Path) -> None:
    """Numbers sort as numbers, up and then down."""
    tab = show(sample)
    heading = tab.locator("th", has_text="batch size")

    def sizes() -> list[str]:
        return tab.locator("tbody td:nth-child(2)").all_inner_texts()

    assert sizes()[:4] == ["32", "32", "32", "4"]
    heading.locator("button").click()
    assert sizes() == ["2"] * 15 + ["4"] * 15 + ["32"] * 15
    assert heading.get_attribute("aria-sort") == "ascending"
    heading.locator("button").click()
    assert sizes() == ["32"] * 15 + ["4"] * 15 + ["2"] * 15
    assert heading.get_attribute("aria-sort") == "descending"


def test_phone(show: Show, sample: Path) -> None:
    """Nothing sticks out of a narrow window, and panels stand below each other."""
    tab = show(sample, width=390)
    assert tab.evaluate("() => document.documentElement.scrollWidth") == 390
    for name in ("loss", "depth", "batch"):
        box = tab.locator(f"#{name} canvas").bounding_box()
        plot = tab.locator(f"#{name} .plot").bounding_box()
        assert box
        assert plot
        assert box["width"] <= plot["width"] + 1
    wanted = {"series": "layer_norm", "x": 500}
    post = point_place(tab, "loss", {**wanted, "panel": "post"})
    pre = point_place(tab, "loss", {**wanted, "panel": "pre"})
    assert post[0] == pytest.approx(pre[0])
    assert pre[1] > post[1] + 200


def test_turning_the_window_draws_again(show: Show, sample: Path) -> None:
    """The charts follow the width."""
    tab = show(sample)
    tab.set_viewport_size({"width": 700, "height": 900})
    tab.wait_for_function(
        "() => [...document.querySelectorAll('#loss, #depth, #batch')].every("
        "(f) => f.querySelector('canvas').getBoundingClientRect().width < 660)"
    )
    assert points_drawn(tab, "loss")["line layer_norm"] == 200


def test_dark(show: Show, sample: Path) -> None:
    """In a dark window the ground is dark and the texts of charts are light."""
    grounds, inks = [], []
    for dark in (False, True):
        tab = show(sample, dark=dark)
        ground = "() => getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"
        grounds.append(sum(tab.evaluate(ground)))
        ink = "() => document.getElementById('loss').drawn.vgSpec.config.axis.labelColor"
        inks.append(sum(bytes.fromhex(tab.evaluate(ink).lstrip("#"))))
    assert grounds[0] > 600 > 150 > grounds[1]
    assert inks[0] < 150 < 600 < inks[1]


def test_hostile_texts_do_not_run(show: Show, tmp_path: Path) -> None:
    """Not on the page, not in a legend, not in a tooltip."""
    tab = show(write_page(hostile.page(), tmp_path / "page.html"))
    tab.locator("#hostile canvas").scroll_into_view_if_needed()
    x, y = point_place(tab, "hostile", {"series": hostile.SERIES, "x": 1})
    tab.mouse.move(x, y - 2)
    tab.mouse.move(x, y)
    assert hostile.SERIES in tooltip(tab).values()
    assert points_drawn(tab, "hostile")[f"line {hostile.SERIES}"] == 3
    assert tab.evaluate("() => window.hacked") is None


def test_a_long_comparison_is_drawn(show: Show, tmp_path: Path) -> None:
    """45 runs of 4000 steps."""
    rows = samples.training_rows(range(0, 4000, 2), placements=("post", "pre", "deepnorm"))
    chart = loss_curves(rows, axes=samples.LOSS_AXES, name="loss", title="Loss")
    tab = show(write_page(Page(title="Long", charts=[chart]), tmp_path / "page.html"))
    drawn = points_drawn(tab, "loss")
    for norm in samples.NORMS:
        assert 3 * 150 < drawn[f"line {norm}"] <= 3 * 300


def test_a_png_shows_the_curves(show: Show, sample: Path, tmp_path: Path) -> None:
    """White ground, and enough pixels in the colour of every series."""
    png, _ = write_pictures(samples.charts()[:1], tmp_path)
    counts = show(sample).evaluate(
        """async (url) => {
          const image = new Image();
          image.src = url;
          await image.decode();
          const canvas = new OffscreenCanvas(image.width, image.height);
          const paint = canvas.getContext("2d");
          paint.drawImage(image, 0, 0);
          const { data } = paint.getImageData(0, 0, image.width, image.height);
          const counts = {};
          for (let i = 0; i < data.length; i += 4) {
            const key = [data[i], data[i + 1], data[i + 2]]
              .map((part) => part.toString(16).padStart(2, "0")).join("").toUpperCase();
            counts["#" + key] = (counts["#" + key] || 0) + 1;
          }
          return counts;
        }""",
        f"data:image/png;base64,{base64.b64encode(png.read_bytes()).decode()}",
    )
    assert max(counts, key=counts.__getitem__) == "#FFFFFF"
    for hue in COLOURS[: len(samples.NORMS)]:
        assert counts[hue] > 500


def test_a_chart_that_cannot_be_drawn_says_so(show: Show, tmp_path: Path) -> None:
    """The reader sees a sentence in its place, and the other charts."""
    wrong = alt.Chart(alt.InlineData(values=[{"a": 1}])).mark_point().transform_calculate(b="1 +")
    charts = [Chart(name="wrong", title="Wrong", spec=wrong), samples.charts()[1]]
    path = write_page(Page(title="Half", charts=charts), tmp_path / "page.html")
    tab = show(path, error="Unexpected end of input")
    words = tab.locator("#wrong .plot").inner_text()
    assert words == "This chart could not be drawn: Unexpected end of input"
    assert points_drawn(tab, "depth")["line pre"] == 5


def test_any_altair_chart_fits(show: Show, tmp_path: Path) -> None:
    """A chart that is not one of ours is fitted to the page too."""
    rows = alt.InlineData(values=[{"a": a, "b": a * a} for a in range(5)])
    bars = alt.Chart(rows).mark_bar().encode(x="a:O", y="b:Q")
    charts = [
        Chart(name="one", title="One", spec=bars),
        Chart(name="two", title="Two", spec=bars.properties(width=2000) | bars),
    ]
    tab = show(write_page(Page(title="Others", charts=charts), tmp_path / "page.html"), width=600)
    plot = tab.locator("#one .plot").bounding_box()
    canvas = tab.locator("#one canvas").bounding_box()
    assert plot
    assert canvas
    assert 0.95 * plot["width"] < canvas["width"] <= plot["width"]
    # What cannot be fitted scrolls inside its own box.
    assert tab.evaluate("() => document.documentElement.scrollWidth") == 600
