"""The library of a process: looked for once, told once; torch operations where there is none."""

from __future__ import annotations

import errno
import os
import tempfile
import threading
from pathlib import Path

import pytest

from normkit.errors import OptionError
from normkit.kernels import cpu
from normkit.kernels.cpu import cache as cache_module
from normkit.kernels.cpu import library
from normkit.kernels.cpu.building import build_sources
from normkit.kernels.cpu.cache import cache_root
from normkit.kernels.cpu.record import Library
from normkit.kernels.cpu.sources import Sources
from tests.kernels.tiny import FakeCompiler

pytestmark = pytest.mark.usefixtures("unasked")


@pytest.fixture
def loading(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Note what is loaded instead of loading it: what the fake compiler makes is no library."""
    files: list[Path] = []

    def load(found: Library) -> cpu.Status:
        assert found.file.exists()
        files.append(found.file)
        return cpu.Status(file=found.file, origin=found.origin, isas=found.record.isas, isa="tiny")

    monkeypatch.setattr(library, "_load", load)
    return files


def test_first_use_compiles_and_says_so_before(
    compiler: FakeCompiler,
    cache: Path,
    loading: list[Path],
    capfd: pytest.CaptureFixture[str],
) -> None:
    """One line on stderr; nothing is compiled, nor said, after that."""
    assert cpu.loaded() is not None
    (folder,) = cache.iterdir()
    asked = len(compiler.targets())
    assert cpu.loaded() is not None
    assert (cpu.isa(), cpu.why_not()) == ("tiny", "")
    said = capfd.readouterr()
    assert said.out == ""
    start = "normkit: compiling its CPU kernels once, about "
    assert said.err.startswith(start)
    assert said.err.endswith(f" s, into {folder}; `normkit build` does this ahead.\n")
    assert said.err.count("\n") == 1
    assert len(compiler.targets()) == asked
    assert len(loading) == 1


def test_what_was_built_ahead_is_loaded_in_silence(
    sources: Sources,
    compiler: FakeCompiler,
    loading: list[Path],
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Another process did it, or `normkit build`."""
    built = build_sources(sources)
    assert cpu.loaded() is not None
    assert loading == [built.file]
    assert capfd.readouterr() == ("", "")
    assert cpu.status() == cpu.Status(
        file=built.file, origin="cache", isas=built.isas, isa="tiny", reason=""
    )


def test_asking_compiles_nothing(compiler: FakeCompiler, loading: list[Path]) -> None:
    """`normkit info` says what there is; the first use still compiles."""
    assert cpu.status() == cpu.Status(
        reason="the CPU kernels are not compiled yet: the first use does it, or normkit build"
    )
    assert compiler.targets() == []
    assert cpu.loaded() is not None
    assert compiler.targets()


@pytest.mark.usefixtures("nobody")
def test_no_compiler_is_said_once(capfd: pytest.CaptureFixture[str]) -> None:
    """With what to type, and how to hear no more of it."""
    for _ in range(3):
        assert cpu.loaded() is None
    assert cpu.isa() is None
    assert capfd.readouterr() == (
        "",
        f"normkit: norms run as torch operations: {cpu.why_not()}. "
        "NORMKIT_CPU=off asks for that, and stops this line.\n",
    )
    assert cpu.why_not().startswith("there is no C++ compiler to compile the CPU kernels (CXX is ")
    assert cpu.why_not().endswith("then type normkit build")


def test_a_compile_error_is_shown(
    compiler: FakeCompiler, capfd: pytest.CaptureFixture[str], cache: Path
) -> None:
    """The compiler's last lines come before the reason; the next process says it without them all
    being compiled again.
    """
    compiler.write('echo "a.cpp:1: error: bad" >&2; exit 1')
    assert cpu.loaded() is None
    (log,) = cache.glob("*/build.log")
    first, *last = capfd.readouterr().err.splitlines()
    assert first.startswith("normkit: compiling its CPU kernels once")
    reason = (
        "the C++ compiler could not compile the CPU kernels: try another, CXX=NAME normkit build "
        f"(the log is {log})"
    )
    assert last == [
        "normkit: a.cpp:1: error: bad",
        f"normkit: norms run as torch operations: {reason}. "
        "NORMKIT_CPU=off asks for that, and stops this line.",
    ]
    assert cpu.why_not() == reason


def test_switched_off(
    compiler: FakeCompiler, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """NORMKIT_CPU=off: nothing is looked for, compiled or said."""
    monkeypatch.setenv("NORMKIT_CPU", "off")
    assert cpu.loaded() is None
    assert cpu.why_not() == "NORMKIT_CPU=off forbids the CPU kernels: unset NORMKIT_CPU"
    assert capfd.readouterr() == ("", "")
    assert compiler.targets() == []


def test_the_switch_has_two_positions(
    monkeypatch: pytest.MonkeyPatch, compiler: FakeCompiler, loading: list[Path]
) -> None:
    """A misspelt one is no switch."""
    monkeypatch.setenv("NORMKIT_CPU", "of")
    with pytest.raises(OptionError) as caught:
        cpu.loaded()
    assert str(caught.value) == (
        "normkit: NORMKIT_CPU must be '', 'on' or 'off'; NORMKIT_CPU is 'of'."
    )
    monkeypatch.setenv("NORMKIT_CPU", "on")
    assert cpu.loaded() is not None


def test_a_cache_that_cannot_be_written(
    compiler: FakeCompiler,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    loading: list[Path],
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The library serves this process, and leaves nothing behind."""
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert cpu.loaded() is not None
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(
        f"normkit: its cache {tmp_path / 'file' / 'normkit'} cannot be used (Not a directory); "
        "compiling its CPU kernels for this process alone, about "
    )
    assert line.endswith(" s. XDG_CACHE_HOME can name another folder.")
    assert cpu.status().origin == "temporary"
    assert loading[0].parent.parent == tmp_path
    assert not list(tmp_path.glob("normkit-*"))


def full(*args: object) -> None:
    """What a full disk answers."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_cache_that_is_full(
    compiler: FakeCompiler,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    loading: list[Path],
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Whoever notices it first, we or the compiler."""
    compiler.write(
        f'case "$target" in {cache}/*) echo "No space left on device" >&2; exit 1;; esac'
    )
    assert cpu.loaded() is not None
    assert "cannot be used (No space left on device)" in capfd.readouterr().err
    assert not list(cache.glob("*/failure.json"))
    library._settled = False
    compiler.write()
    monkeypatch.setattr(cache_module.os, "replace", full)
    assert cpu.loaded() is not None
    assert "cannot be used (No space left on device)" in capfd.readouterr().err
    assert len(loading) == 2


def test_no_folder_at_all(
    compiler: FakeCompiler,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Torch operations, with both folders named."""
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with monkeypatch.context() as nowhere:  # pytest itself needs the place again
        nowhere.setattr(tempfile, "tempdir", str(tmp_path / "file"))
        assert cpu.loaded() is None
    assert cpu.why_not() == (
        "the CPU kernels cannot be compiled: neither the cache "
        f"{tmp_path / 'file' / 'normkit'} nor a temporary folder can be written (Not a directory); "
        "XDG_CACHE_HOME and TMPDIR can name others"
    )
    assert "norms run as torch operations" in capfd.readouterr().err


def test_a_library_that_does_not_load(
    sources: Sources, compiler: FakeCompiler, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its bytes are sound, and the loader refuses them: no traceback, and what to type."""
    built = build_sources(sources)
    assert cpu.loaded() is None
    start, end = f"the CPU kernels in {built.file} cannot be loaded (", "type normkit build --force"
    assert cpu.why_not().startswith(start)
    assert cpu.why_not().endswith(end)
    assert f"normkit: norms run as torch operations: {start}" in capfd.readouterr().err


def test_build_makes_the_process_look_again(
    sources: Sources,
    compiler: FakeCompiler,
    loading: list[Path],
    nobody: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A compiler was installed meanwhile."""
    assert cpu.loaded() is None
    monkeypatch.setenv("PATH", os.defpath)
    monkeypatch.setenv("CXX", str(compiler.file))
    assert cpu.loaded() is None
    build_sources(sources)
    assert cpu.loaded() is not None


def test_threads_wait_for_one_build(
    compiler: FakeCompiler, cache: Path, loading: list[Path]
) -> None:
    """Autograd runs backward passes in threads of its own."""
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(cpu.loaded())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert None not in found
    assert len(loading) == 1


@pytest.mark.parametrize(
    ("named", "root"), [("", "~/.cache/normkit"), ("relative", "~/.cache/normkit")]
)
def test_the_place_of_the_cache(monkeypatch: pytest.MonkeyPatch, named: str, root: str) -> None:
    """By the rule of freedesktop.org: a relative name is ignored."""
    monkeypatch.setenv("XDG_CACHE_HOME", named)
    assert cache_root() == Path(root).expanduser()
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_root() == Path(root).expanduser()
