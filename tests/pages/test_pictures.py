"""Charts as files. What a PNG shows is looked at in test_in_browser.py."""

from __future__ import annotations

import struct
from pathlib import Path
from xml.etree import ElementTree

import pytest

from normkit.pages import write_pictures
from tests.pages import samples

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pictures of the sample page."""
    folder = tmp_path_factory.mktemp("page") / "pictures"
    paths = write_pictures(samples.page(), folder)
    assert sorted(paths) == sorted(folder.iterdir())
    return folder


def test_every_chart_has_both_pictures(pictures: Path) -> None:
    """NAME.png and NAME.svg, and nothing else."""
    assert sorted(path.name for path in pictures.iterdir()) == sorted(
        f"{name}.{kind}" for name in ("loss", "depth", "batch") for kind in ("png", "svg")
    )


@pytest.mark.parametrize(
    ("name", "hue", "words"),
    [
        (
            "loss",
            "#009E73",
            ["layer_norm", "placement: pre", "unigram entropy (3.05)", "training step"],
        ),
        ("depth", "#D55E00", ["Loss by depth", "post", "depth (layers)", "48"]),
        ("batch", "#0072B2", ["rms_norm", "batch size (lines)", "32"]),
    ],
)
def test_svg_shows_curves_and_words(pictures: Path, name: str, hue: str, words: list[str]) -> None:
    """Title, legend, axes, and marks in the colour of a series."""
    root = ElementTree.parse(pictures / f"{name}.svg").getroot()
    texts = [element.text for element in root.iter(f"{SVG}text")]
    assert [word for word in words if word not in texts] == []
    drawn = [path.attrib for path in root.iter(f"{SVG}path")]
    assert [a for a in drawn if hue in (a.get("stroke"), a.get("fill")) and len(a["d"]) > 20]


@pytest.mark.parametrize("name", ["loss", "depth", "batch"])
def test_png_has_twice_the_size(pictures: Path, name: str) -> None:
    """Two pixels for one of the SVG, and more than an empty sheet."""
    png = (pictures / f"{name}.png").read_bytes()
    root = ElementTree.parse(pictures / f"{name}.svg").getroot()
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", png[16:24])
    assert (width, height) == (2 * float(root.attrib["width"]), 2 * float(root.attrib["height"]))
    assert len(png) > 20_000
