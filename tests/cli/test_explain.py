"""``normkit explain`` in the terminal: what is printed, the picture file, JSON, exit codes."""

from __future__ import annotations

import io
import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from rich.console import Console

from normkit import cli
from normkit.cli import explain as verb
from normkit.explanation import explain
from normkit.pages import style


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """80 columns and no colour, wherever the tests run."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    """The lines that a call prints, without blanks at their ends."""
    assert cli.main(["explain", *words]) == 0
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    ("normalized", "sentence"),
    [
        ("3", "8 statistics of 3 elements each"),
        ("2,3", "4 statistics of 6 elements each"),
        ("4,2,3", "1 statistic of 24 elements each"),
    ],
)
def test_eight_four_one(normalized: str, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The three ways to normalise (4, 2, 3), and that the last one couples the batch."""
    lines = printed(capsys, "layer_norm", "--shape", "4,2,3", "--normalized-shape", normalized)
    assert f"  how many  {sentence}" in lines
    coupled = "The batch is among the shared axes" in "\n".join(lines)
    assert coupled == (normalized == "4,2,3")


@pytest.mark.parametrize("words", [["layer_norm"], ["batch_norm"], ["deepnorm", "--depth", "24"]])
def test_same_as_in_python(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The terminal says what ``print(normkit.explain(...))`` says, within its width."""
    lines = printed(capsys, *words)
    depth = {"depth": 24} if len(words) > 1 else {}
    spoken = " ".join(str(explain(words[0], **depth)).split())  # type: ignore[arg-type]
    assert " ".join(" ".join(lines).split()) == spoken
    assert max(map(len, lines)) <= 80


def test_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    """Two norms are a table."""
    out = "\n".join(printed(capsys, "layer_norm", "batch_norm", "--shape", "4,2,3"))
    assert "LayerNorm" in out
    assert "BatchNorm" in out
    assert all(question in out for question in ("batch of one", "causal use", "distributed"))


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    """``--json`` prints the data of the explanation."""
    lines = printed(capsys, "layer_norm", "--shape", "4,2,3", "--json")
    assert json.loads("\n".join(lines)) == json.loads(
        json.dumps(explain("layer_norm", shape=(4, 2, 3)).data())
    )


def test_svg(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``--svg`` writes the picture, an SVG document."""
    path = tmp_path / "norm.svg"
    assert cli.main(["explain", "layer_norm", "--svg", str(path)]) == 0
    assert ET.fromstring(path.read_text(encoding="utf-8")).tag.endswith("svg")
    assert capsys.readouterr().err == ""


def test_svg_into_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder that is not there is a sentence."""
    path = tmp_path / "no" / "norm.svg"
    assert cli.main(["explain", "layer_norm", "--svg", str(path)]) == 2
    assert capsys.readouterr().err == (
        f"normkit: cannot use '{path}'; No such file or directory.\n"
    )


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (
            ["layer_norm", "--shape", "4,3,2", "--normalized-shape", "2,3"],
            "LayerNorm: the last 2 axes of x must be (2, 3); x is (4, 3, 2). "
            "Try normalized_shape=(3, 2), or x.transpose(-1, -2).\n",
        ),
        (
            ["layer_norm", "--shape", "4,a"],
            "explain: --shape must be integers with commas between; it is '4,a'. "
            "Try --shape 4,2,3.\n",
        ),
        (
            ["deepnorm", "--shape", "4,2"],
            "explain: shape is an option of norms; deepnorm is a placement. "
            "Try depth, or leave it out.\n",
        ),
        ([], "normkit explain: Missing argument 'NAME...'. Try normkit explain --help.\n"),
    ],
)
def test_errors(words: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong call is one sentence and exit code 2."""
    assert cli.main(["explain", *words]) == 2
    captured = capsys.readouterr()
    assert captured.err == text
    assert captured.out == ""


def test_unknown_name(capsys: pytest.CaptureFixture[str]) -> None:
    """The sentence of the registry, over norms and placements."""
    assert cli.main(["explain", "rmsnorm"]) == 2
    text = capsys.readouterr().err
    assert text.startswith("norm or placement must be 'layer_norm', ")
    assert text.endswith("got 'rmsnorm'. Did you mean 'rms_norm'?\n")


@pytest.mark.parametrize("text", ["4,2,3", "(4, 2, 3)", "4x2x3", "[4,2,3]"])
def test_sizes(text: str) -> None:
    """People write shapes in several ways."""
    assert verb._sizes("--shape", text) == (4, 2, 3)


def test_colours_are_those_of_the_pages() -> None:
    """Terminal and picture give one statistic one colour."""
    assert verb.COLOURS == style.COLOURS


def test_terminal_without_line_characters() -> None:
    """Where the terminal cannot show them, lines are drawn in ASCII."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    verb._show(Console(file=out, width=80, markup=False), explain("deepnorm"))
    out.flush()
    assert b"x -+- [attention]" in out.buffer.getvalue()  # type: ignore[attr-defined]
