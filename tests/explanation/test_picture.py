"""The picture: cells, what is left out of large tensors, and how it reads without colour."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import pytest

from normkit.errors import MissingExtraError
from normkit.explanation import NormExplanation, explain
from normkit.explanation.picture import TensorPicture, lines
from normkit.spec import NORMS, PLACEMENTS

SVG = "{http://www.w3.org/2000/svg}"


def drawn(name: str, **options: Any) -> TensorPicture:
    """The picture of a norm's first step."""
    found = explain(name, **options)
    assert isinstance(found, NormExplanation)
    return found.stages[0].picture


def text(picture: TensorPicture) -> str:
    """The picture without colour."""
    return "\n".join("".join(piece.text for piece in line).rstrip() for line in lines(picture))


def test_numbers_read_without_colour() -> None:
    """GroupNorm: each sample has its groups."""
    assert text(drawn("group_norm", shape=(2, 4, 2), groups=2)) == (
        "B0      B1\n 0  0    2  2\n 0  0    2  2\n 1  1    3  3\n 1  1    3  3"
    )


def test_no_statistics() -> None:
    """A norm without statistics has cells without a number."""
    assert text(drawn("dynamic_tanh", shape=(2, 3))) == " .  .  .\n .  .  ."
    assert {n for b in drawn("no_norm").bands for p in b for r in p.cells for n in r} == {None}


@pytest.mark.parametrize(
    ("name", "options", "shape"),
    [
        ("layer_norm", {"shape": (32, 512, 768)}, (2, 3, 6)),
        ("layer_norm", {"shape": (32, 512, 768), "normalized_shape": (512, 768)}, (2, 3, 6)),
        ("batch_norm", {"shape": (32, 256, 56, 56)}, (2, 4, 3, 3)),
        ("group_norm", {"shape": (8, 64, 32, 32)}, (2, 4, 3, 3)),
        ("qk_norm", {"shape": (2, 8, 16, 64)}, (2, 2, 3, 4)),
    ],
)
def test_large_tensors_are_drawn_small(
    name: str, options: dict[str, Any], shape: tuple[int, ...]
) -> None:
    """The structure stays, and the caption says so."""
    picture = drawn(name, **options)
    assert picture.shape == shape
    assert picture.reduced
    assert picture.caption.startswith("Drawn smaller, with the same structure: ")


def test_small_tensors_are_drawn_whole() -> None:
    """What fits is drawn as it is."""
    assert drawn("layer_norm", shape=(4, 2, 3)).shape == (4, 2, 3)
    assert drawn("layer_norm", shape=(4, 2, 3)).caption == (
        "Drawn: 4 x 2 x 3; in each panel T down, D across."
    )


def test_many_panels_wrap() -> None:
    """Panels that do not fit a line go on below."""
    picture = drawn("layer_norm", shape=(12, 2, 4))
    assert max(map(len, text(picture).splitlines())) <= 78
    assert text(picture).count("B11") == 1


def marks(svg: str, kind: str) -> int:
    """How many marks of a kind the document has."""
    root = ET.fromstring(svg)
    groups = [g for g in root.iter(f"{SVG}g") if f"mark-{kind} role-mark" in g.get("class", "")]
    return sum(len([e for e in group if e.tag in (f"{SVG}path", f"{SVG}text")]) for group in groups)


@pytest.mark.parametrize("name", ["layer_norm", "group_norm", "power_norm", "dynamic_tanh"])
def test_svg_has_one_mark_per_element(name: str) -> None:
    """The document is XML, with a rectangle for each element of each step's picture."""
    found = explain(name)
    assert isinstance(found, NormExplanation)
    elements = 0
    for stage in found.stages:
        count = 1
        for size in stage.picture.shape:
            count *= size
        elements += count
    assert marks(found.svg(), "rect") == elements


@pytest.mark.parametrize("name", ["deepnorm", "normformer", "residual"])
def test_svg_of_a_placement(name: str) -> None:
    """A box for each node that is no end, for scales on the skip and the second stream's sum."""
    found = explain(name)
    tracks = found.drawings()[0]["tracks"]
    boxes = sum(node["kind"] != "end" for track in tracks for node in track["nodes"])
    boxes += sum(bool(track["skip"]) + (track["second"] is not None) for track in tracks)
    assert marks(found.svg(), "rect") == boxes


def test_svg_side_by_side() -> None:
    """Both pictures are in one document, each under its name."""
    svg = explain("layer_norm", "batch_norm").svg()
    assert marks(svg, "rect") == 2 * 24
    assert "BatchNorm: " in svg


@pytest.mark.parametrize("name", [*NORMS, *PLACEMENTS])
def test_everything_can_be_drawn(name: str) -> None:
    """Each name gives records that a chart takes; the kind says which."""
    kinds = {drawing["kind"] for drawing in explain(name).drawings()}
    assert kinds == {"tensor" if name in NORMS else "diagram"}


def test_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where altair is missing, drawing says what to install."""
    import sys

    for module in [m for m in sys.modules if m.startswith("normkit.pages")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(MissingExtraError) as caught:
        explain("layer_norm").svg()
    assert str(caught.value) == (
        "Explanation.svg: drawing needs the packages of normkit[cli]; altair is not installed. "
        "Type pip install 'normkit[cli]'."
    )
