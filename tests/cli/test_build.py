"""``normkit build``: what it did, where, and how long; and what ``normkit info`` says of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from normkit import cli
from normkit.cli.machine import machine_facts
from normkit.kernels.cpu import library
from normkit.kernels.cpu.library import Status
from normkit.kernels.cpu.record import Library
from tests.kernels.conftest import cache, compiler, nobody, sources, unasked
from tests.kernels.tiny import FakeCompiler

__all__ = ["cache", "compiler", "nobody", "sources", "unasked"]  # fixtures

pytestmark = pytest.mark.usefixtures("unasked")


@pytest.fixture(autouse=True)
def loads(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the fake compiler makes is no library; as if it were."""

    def load(found: Library) -> Status:
        isas = found.record.isas
        return Status(file=found.file, origin=found.origin, isas=isas, isa="tiny")

    monkeypatch.setattr(library, "_load", load)


def library_facts() -> dict[str, str]:
    """What ``normkit info`` shows."""
    return {fact.name: fact.value for fact in machine_facts() if fact.group == "CPU kernels"}


def test_builds(compiler: FakeCompiler, cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was done, the file, the compiler, the instruction sets; and info agrees."""
    unbuilt = "the CPU kernels are not compiled yet: the first use does it, or normkit build"
    assert library_facts() == {"library": f"none: {unbuilt}"}
    assert cli.main(["build"]) == 0
    out, err = capsys.readouterr()
    (file,) = cache.glob("*/libnormkit_cpu.*")
    first, *lines = out.splitlines()
    assert re.fullmatch(r"Compiled the CPU kernels in \d+\.\d s\.", first)
    facts = library_facts()
    assert lines == [
        f"file      {file} (0.0 MiB)",
        "compiler  fake compiler 1.0",
        f"for       {facts['compiled for']}; here tiny runs",
    ]
    assert err == ""
    origin = "compiled here, kept in the cache"
    assert (facts["library"], facts["from"], facts["runs with"]) == (str(file), origin, "tiny")


def test_says_that_there_is_nothing_to_do(
    compiler: FakeCompiler, capsys: pytest.CaptureFixture[str]
) -> None:
    """Unless it is forced."""
    words = ["The CPU kernels are compiled: nothing to do. Type normkit build --force to redo it."]
    assert cli.main(["build"]) == 0
    count = len(compiler.targets())
    capsys.readouterr()
    assert cli.main(["build"]) == 0
    assert capsys.readouterr().out.splitlines()[:1] == words
    assert len(compiler.targets()) == count
    assert cli.main(["build", "--force"]) == 0
    assert capsys.readouterr().out.startswith("Compiled the CPU kernels in ")
    assert len(compiler.targets()) == 2 * count


def test_switched_off(
    compiler: FakeCompiler, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It builds, and says that nothing will use it."""
    monkeypatch.setenv("NORMKIT_CPU", "off")
    assert cli.main(["build"]) == 0
    end = "none runs here: NORMKIT_CPU=off forbids the CPU kernels: unset NORMKIT_CPU"
    assert capsys.readouterr().out.splitlines()[-1].endswith(f"; {end}")


@pytest.mark.usefixtures("nobody")
def test_no_compiler(capsys: pytest.CaptureFixture[str]) -> None:
    """One sentence, exit code 2."""
    assert cli.main(["build"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("build: there is no C++ compiler to compile the CPU kernels (CXX is not ")
    assert err.count("\n") == 1


def test_a_cache_that_cannot_be_written(
    compiler: FakeCompiler,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Building ahead for nobody would be no use: it is refused."""
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert cli.main(["build"]) == 2
    assert capsys.readouterr().err == (
        "build: the cache must be a folder that can be written; "
        f"{tmp_path / 'file' / 'normkit'} cannot (Not a directory). "
        "XDG_CACHE_HOME=FOLDER names another.\n"
    )
