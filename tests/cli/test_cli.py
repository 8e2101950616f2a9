"""The frame of the command line: help, version, exit codes, and what a person reads on failure."""

from __future__ import annotations

import builtins
import errno
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

import normkit
from normkit import cli
from normkit.cli import app, guard
from normkit.errors import DataError


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """One width and no colour, wherever the tests run."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")


class Verb:
    """A verb ``fail`` that raises what it was given."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def register(self, application: typer.Typer) -> None:
        """Add the verb, as each file of normkit.cli does."""
        application.command(name="fail")(guard.guarded(self.fail))

    def fail(self) -> None:
        """Fail."""
        raise self.error


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that runs a verb which raises the given error, and returns the exit code."""

    def run(error: BaseException) -> int:
        monkeypatch.setattr(app, "VERBS", (*app.VERBS, Verb(error)))
        return cli.main(["fail"])

    return run


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"]])
def test_help(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """``normkit`` alone prints the help: what it is, and every verb."""
    assert cli.main(words) == 0
    out = capsys.readouterr().out
    assert "Usage: normkit [OPTIONS] COMMAND" in out
    assert "Normalization in deep networks" in out
    assert all(f"│ {verb}" in out for verb in ("compare", "info"))


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    """One line."""
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"normkit {normkit.__version__}\n"


def test_every_verb_says_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    """Each verb has help with a sentence of its own, and no option without one."""
    for verb in typer.main.get_command(app.build()).commands:  # type: ignore[attr-defined]
        assert cli.main([verb, "--help"]) == 0
        assert f"Usage: normkit {verb}" in capsys.readouterr().out
    for command in typer.main.get_command(app.build()).commands.values():  # type: ignore[attr-defined]
        assert command.help
        assert [p.name for p in command.params if not getattr(p, "help", "")] == []


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["inof"], "normkit: No such command 'inof'. Did you mean 'info'? Try normkit --help.\n"),
        (["--bogus"], "normkit: No such option: --bogus. Try normkit --help.\n"),
        (["info", "--bogus"], "normkit info: No such option: --bogus. Try normkit info --help.\n"),
    ],
)
def test_wrong_words(words: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong call is one sentence and exit code 2."""
    assert cli.main(words) == 2
    captured = capsys.readouterr()
    assert captured.err == text
    assert captured.out == ""


@pytest.mark.parametrize(
    "start", [["-m", "normkit"], ["-c", "import normkit.cli as c, sys; sys.exit(c.main())"]]
)
def test_processes(start: list[str]) -> None:
    """The exit code reaches the shell, by both ways to start."""
    done = subprocess.run(
        [sys.executable, *start, "nonsense"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == "normkit: No such command 'nonsense'. Try normkit --help.\n"


def test_our_error(failing: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """An error that we raise on purpose is its sentence, without a traceback."""
    assert failing(DataError("compare: the text is empty; it has 0 characters.")) == 2
    assert capsys.readouterr().err == "compare: the text is empty; it has 0 characters.\n"


def test_usage_error_inside_a_verb(failing: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """typer's own error, raised by a verb, is a sentence too."""
    assert failing(typer.BadParameter("depth must be at least 1")) == 2
    assert "depth must be at least 1. Try normkit" in capsys.readouterr().err


def test_missing_file(failing: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A file that the person named."""
    path = tmp_path / "no.txt"
    error = FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))
    assert failing(error) == 2
    assert capsys.readouterr().err == f"normkit: cannot use '{path}'; No such file or directory.\n"


def test_full_disk(failing: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """A disk that is full."""
    assert failing(OSError(errno.ENOSPC, "No space left on device")) == 2
    assert capsys.readouterr().err == "normkit: cannot write; No space left on device.\n"


def test_missing_file_of_ours(failing: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """A file missing from the package itself is a bug of ours."""
    path = Path(normkit.__file__).parent / "pages" / "gone.html"
    assert failing(FileNotFoundError(errno.ENOENT, "No such file or directory", path)) == 1
    assert "this is a bug in normkit" in capsys.readouterr().err


def test_interrupt(failing: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Ctrl-C has the exit code that shells expect."""
    assert failing(KeyboardInterrupt()) == 130
    assert capsys.readouterr().err == "normkit: stopped by Ctrl-C.\n"


def test_bug(failing: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Anything else shows where it broke and asks for a report."""
    assert failing(ZeroDivisionError("division by zero")) == 1
    err = capsys.readouterr().err
    assert "ZeroDivisionError: division by zero" in err
    assert "in fail" in err
    assert len(err.splitlines()) < 20
    assert err.endswith(
        "normkit: this is a bug in normkit, not in what was typed. Please report it with the "
        "lines above and what `normkit info` prints.\n"
    )


def test_exit_code_of_a_verb(failing: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """A verb may choose its exit code."""
    assert failing(typer.Exit(7)) == 7
    assert capsys.readouterr().err == ""


def test_missing_package(failing: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """A package of the extra that a verb misses later is told like one missed at the start."""
    assert (
        failing(ModuleNotFoundError("No module named 'altair.vegalite'", name="altair.vegalite"))
        == 2
    )
    assert capsys.readouterr().err == (
        "normkit: the command line needs the packages of normkit[cli]; altair is not installed. "
        "Type pip install 'normkit[cli]'.\n"
    )


@pytest.mark.parametrize("name", ["normkit.lab.gone", "rich_text", None])
def test_other_missing_modules_surface(name: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken import that is not about the extra is not hidden behind its sentence."""
    monkeypatch.delitem(sys.modules, "normkit.cli.app")
    original = builtins.__import__

    def broken(module: str, *args: Any, **kwargs: Any) -> Any:
        if module == "normkit.cli.app":
            raise ModuleNotFoundError("broken", name=name)
        return original(module, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", broken)
    with pytest.raises(ModuleNotFoundError, match="broken"):
        cli.main(["info"])


def test_reader_that_leaves() -> None:
    """A reader that stops early, as ``head`` does, is no error."""
    line = f"{shlex.quote(sys.executable)} -m normkit --help | true"
    done = subprocess.run(
        ["sh", "-c", line], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stderr == ""
