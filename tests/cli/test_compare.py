"""``normkit compare``: each wrong input is one sentence and a 2, and nothing is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import normkit
from normkit import cli, lab
from normkit.errors import choices
from normkit.lab.folder import locked
from normkit.lab.pool import Outcome
from normkit.spec import NORMS
from tests.lab import small

NORM_NAMES = choices(NORMS)
RECIPES = "'demo', 'ln-vs-bn' or 'depth'"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to stand in, with a few files to name."""
    monkeypatch.chdir(tmp_path)
    small.write_text(tmp_path)
    (tmp_path / "empty.txt").touch()
    (tmp_path / "binary").write_bytes(b"\x7fELF\x02\x01\xff")
    (tmp_path / "nul.txt").write_bytes(b"a\0b")
    (tmp_path / "tiny.txt").write_text("To be, or not to be")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("all my work")
    (tmp_path / "done").mkdir()
    (tmp_path / "done" / "recipe.json").write_text("{}")
    return tmp_path


def contents(folder: Path) -> dict[str, bytes | None]:
    """Every file under a folder, with its bytes."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


PLAIN = "Give a plain text file"
BAD: dict[str, tuple[list[str], str]] = {
    "missing text": (
        ["--text", "gone.txt"],
        "compare: text must name a UTF-8 file; there is no file 'gone.txt'.",
    ),
    "empty text": (
        ["--text", "empty.txt"],
        "compare: text must hold characters to learn from; 'empty.txt' is empty.",
    ),
    "binary text": (
        ["--text", "binary"],
        f"compare: text must be UTF-8 without NUL characters; byte 6 of 'binary' is not UTF-8. "
        f"{PLAIN}.",
    ),
    "text with NUL": (
        ["--text", "nul.txt"],
        "compare: text must be UTF-8 without NUL characters; 'nul.txt' has a NUL at character 1. "
        f"{PLAIN}.",
    ),
    "tiny text": (
        ["--text", "tiny.txt"],
        "compare: text must have at least 650 characters for windows of 64; 'tiny.txt' has 19. "
        "Give a longer text.",
    ),
    "text that is a folder": (
        ["--text", "full"],
        "compare: text must name a UTF-8 file; 'full' is a folder.",
    ),
    "unknown norm": (
        ["--norm", "layernorm"],
        f"norm must be {NORM_NAMES}; got 'layernorm'. Did you mean 'layer_norm'?",
    ),
    "unknown recipe": (
        ["--recipe", "lnvsbn"],
        f"compare: recipe must be {RECIPES}; recipe is 'lnvsbn'.",
    ),
    "unknown dtype": (
        ["--dtype", "float16"],
        "compare: dtype must be 'float32', 'bfloat16' or 'float64'; dtype is 'float16'.",
    ),
    "depth 0": (["--depth", "0"], "compare: depth must be at least 1; depth is 0."),
    "depth in words": (
        ["--depth", "2,deep"],
        "compare: depth must be a whole number; depth is 'deep'.",
    ),
    "seeds 0": (["--seeds", "0"], "compare: seeds must be at least 1; seeds is 0."),
    "steps 0": (["--steps", "0"], "compare: steps must be at least 1; steps is 0."),
    "jobs 0": (["--jobs", "0"], "compare: jobs must be at least 1; jobs is 0."),
    "batch size 0": (
        ["--batch-size", "0"],
        "compare: batch_size must be at least 1; batch_size is 0.",
    ),
    "learning rate 0": (
        ["--lr", "0"],
        "compare: lr must be a positive finite number; lr is 0.",
    ),
    "learning rate below 0": (
        ["--lr", "1e-3,-1"],
        "compare: lr must be a positive finite number; lr is -1.",
    ),
    "learning rate nan": (
        ["--lr", "nan"],
        "compare: lr must be a positive finite number; lr is nan.",
    ),
    "large batch": (
        ["--text", "words.txt", "--batch-size", "64"],
        "compare: a batch must not be larger than the training text; batch_size is 64, "
        "'words.txt' has 31 windows. Try batch_size=31 or less, or a longer text.",
    ),
    "pieces of unequal size": (
        ["--batch-size", "4", "--accumulate", "3"],
        "compare: accumulate must divide batch_size; batch_size is 4 and accumulate is 3.",
    ),
    "out with runs": (
        ["--out", "done"],
        "compare: out must be a new or an empty folder; 'done' holds a comparison. "
        "Add --resume (in Python resume=True) to go on with it, or choose another out.",
    ),
    "out with other files": (
        ["--out", "full"],
        "compare: out must be a new or an empty folder; 'full' holds other files. "
        "Choose another out.",
    ),
    "out that is a file": (
        ["--out", "tiny.txt"],
        "compare: out must be a new or an empty folder; 'tiny.txt' is a file.",
    ),
    "resume without out": (
        ["--resume"],
        "compare: resume needs the folder to go on in; out is missing. Add --out DIR.",
    ),
    "resume of nothing": (
        ["--resume", "--out", "gone"],
        "compare: resume needs the folder of an earlier comparison; there is no folder 'gone'. "
        "Leave --resume out to start one.",
    ),
    "resume of a broken folder": (
        ["--resume", "--out", "done"],
        "compare: resume needs the folder of an earlier comparison; "
        f"'{Path('done', 'recipe.json')}' is not what normkit wrote. Choose another out.",
    ),
    "resume of another folder": (
        ["--resume", "--out", "full"],
        "compare: resume needs the folder of an earlier comparison; 'full' has no recipe.json. "
        "Leave --resume out to start one.",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One sentence, exit code 2, and every file is as it was."""
    words, text = BAD[case]
    before = contents(here)
    assert cli.main(["compare", *words]) == 2
    out, errors = capsys.readouterr()
    assert (out, errors) == ("", text + "\n")
    assert contents(here) == before


def test_unknown_placement(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The sentence lists those that exist."""
    assert cli.main(["compare", "--placement", "prae"]) == 2
    errors = capsys.readouterr().err
    assert errors.startswith("placement must be 'post', 'pre', 'deepnorm', ")
    assert errors.endswith("; got 'prae'. Did you mean 'pre'?\n")
    assert errors.count("\n") == 1


def test_norm_that_cannot_stand_on_tokens(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Known by name, but the model cannot have it: said before anything is written."""
    before = contents(here)
    assert cli.main(["compare", "--norm", "layer_norm,group_norm"]) == 2
    errors = capsys.readouterr().err
    assert errors.startswith("compare: ")
    assert "'group_norm'" in errors
    assert errors.count("\n") == 1
    assert contents(here) == before


def test_locked_folder(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder that another process is just starting in."""
    with locked(here / "busy"):
        assert cli.main(["compare", "--out", "busy"]) == 2
    assert capsys.readouterr().err == (
        "compare: one process at a time may write to a folder; another one is writing to 'busy'. "
        "Wait until it is done, or choose another out.\n"
    )


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    """Each recipe with its question."""
    assert cli.main(["compare", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["demo", "ln-vs-bn", "depth"]
    for line, recipe in zip(lines, lab.RECIPES.values(), strict=True):
        assert line.endswith(recipe.question)


def test_every_option_is_in_the_python_twin() -> None:
    """The same names, but for --list and the console."""
    import inspect

    from normkit.cli.compare import compare as verb

    words = set(inspect.signature(verb).parameters) - {"show_recipes"}
    assert words == set(inspect.signature(normkit.compare).parameters) - {"console"}


ONE_RUN = ["--norm", "rms_norm", "--steps", "2", "--seeds", "1", "--batch-size", "2"]


def test_a_comparison(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Results on stdout, progress on stderr, exit code 0, a folder under runs/."""
    assert cli.main(["compare", "--text", "words.txt", *ONE_RUN]) == 0
    out, errors = capsys.readouterr()
    assert out.startswith("Which norm, and where?\n")
    assert "Best here: RMSNorm, Pre-norm, final validation loss" in out
    assert str(Path("runs", "compare-1", "page.html")) in out
    assert errors.startswith("start    rms_norm-pre-depth2-batch2-")
    assert (here / "runs" / "compare-1" / "page.html").exists()


def stubbed(monkeypatch: pytest.MonkeyPatch, act: Any) -> None:
    """Put something in the place of the training."""
    monkeypatch.setattr("normkit.lab.pool.Pool.run", act)


def test_a_failed_run_is_exit_code_1(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others count, and the error is shown."""

    def fail(self: Any, configs: Any, **_: Any) -> list[Outcome]:
        return [Outcome(config.id, "failed", error="no memory") for config in configs]

    stubbed(monkeypatch, fail)
    assert cli.main(["compare", "--text", "words.txt", "--out", "o", *ONE_RUN]) == 1
    assert "FAILED rms_norm-pre-depth2-batch2" in capsys.readouterr().out
    assert (here / "o" / "page.html").exists()


def test_ctrl_c_is_exit_code_130(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says how to go on; the folder can."""

    def interrupt(self: Any, configs: Any, **_: Any) -> list[Outcome]:
        raise KeyboardInterrupt

    stubbed(monkeypatch, interrupt)
    assert cli.main(["compare", "--text", "words.txt", "--out", "o", *ONE_RUN]) == 130
    assert capsys.readouterr().err == "Stopped. To go on: normkit compare --out o --resume\n"
    assert not (here / "o" / "page.html").exists()
    monkeypatch.undo()
    monkeypatch.chdir(here)
    assert cli.main(["compare", "--out", "o", "--resume"]) == 0
    assert (here / "o" / "page.html").exists()
