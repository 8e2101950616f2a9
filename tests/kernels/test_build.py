"""Building: what is compiled, when it is compiled again, what a person reads where it fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from normkit.errors import BuildError
from normkit.kernels.cpu import compiling, flags, processes
from normkit.kernels.cpu.building import Built, build_sources
from normkit.kernels.cpu.compiler import Compiler, find_compiler
from normkit.kernels.cpu.compiling import Recipe
from normkit.kernels.cpu.failure import CannotBuild
from normkit.kernels.cpu.finding import ready
from normkit.kernels.cpu.record import RECORD, verified
from normkit.kernels.cpu.sources import Sources
from tests.kernels.tiny import FakeCompiler

OBJECTS = {"tiny.bindings.o", *(f"tiny.{isa}.o" for isa in ("baseline", "avx2", "avx512"))}
CURES = "install one (Debian: apt-get install g++), then type normkit build"


@pytest.fixture(autouse=True)
def on_linux_x86(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three instruction sets wherever the tests run: the compiler only pretends."""
    monkeypatch.setattr(flags.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(flags.sys, "platform", "linux")


def test_builds_once(sources: Sources, compiler: FakeCompiler, cache: Path) -> None:
    """One object a binding, one a compute file and instruction set, the link; then nothing more."""
    built = build_sources(sources)
    targets = compiler.targets()
    assert set(targets[:-1]) == OBJECTS
    assert len(targets) == len(OBJECTS) + 1
    assert targets[-1] == built.file.name
    assert built.file.parent.parent == cache
    assert (built.origin, built.compiler) == ("cache", "fake compiler 1.0")
    assert built.isas == ("baseline", "avx2", "avx512")
    assert built.size_bytes == built.file.stat().st_size
    assert built.compiled
    assert built.seconds > 0
    again = build_sources(sources)
    assert (again.file, again.compiled, again.seconds) == (built.file, False, 0)
    assert compiler.targets() == targets


def test_only_three_files_stay(sources: Sources, compiler: FakeCompiler) -> None:
    """The library, its record and the log; no object, no folder of the build."""
    folder = build_sources(sources).file.parent
    left = {file.name for file in folder.iterdir()} - {"lock"}
    assert left == {flags.NAME, RECORD, "build.log"}
    log = (folder / "build.log").read_text(encoding="utf-8")
    assert log.count("exit code 0") == len(OBJECTS) + 1


def test_flags_of_each_kind(sources: Sources, compiler: FakeCompiler) -> None:
    """Instruction sets for compute files alone, torch's headers for bindings alone."""
    build_sources(sources)
    calls = (compiler.folder / "calls").read_text(encoding="utf-8").splitlines()
    by_target = {line.split("/")[-1]: line for line in calls if "building-" in line}
    assert "-mavx512f" in by_target["tiny.avx512.o"]
    assert "-DNORMKIT_ISA=avx512" in by_target["tiny.avx512.o"]
    assert "-mavx" not in by_target["tiny.baseline.o"] + by_target["tiny.bindings.o"]
    assert "torch/include" in by_target["tiny.bindings.o"].split("-I")[1]
    assert "-I" not in by_target["tiny.avx2.o"]
    for isa in ("baseline", "avx2", "avx512"):
        assert f"-DNORMKIT_HAS_{isa}" in by_target["tiny.bindings.o"]
    assert not [line for line in calls if "fast-math" in line or "-Ofast" in line]


def test_objects_are_linked_from_the_least_instruction_set(
    sources: Sources, compiler: FakeCompiler
) -> None:
    """Of an inline function in several objects the linker keeps the first."""
    build_sources(sources)
    link = (compiler.folder / "calls").read_text(encoding="utf-8").splitlines()[-1]
    places = [link.index(f"tiny.{name}.o") for name in ("bindings", "baseline", "avx2", "avx512")]
    assert places == sorted(places)


def test_an_instruction_set_that_the_compiler_does_not_know_is_left_out(
    sources: Sources, compiler: FakeCompiler
) -> None:
    """The log says so."""
    compiler.write('case "$*" in *-mavx512f*) echo "unknown: -mavx512f" >&2; exit 1;; esac')
    built = build_sources(sources)
    assert built.isas == ("baseline", "avx2")
    assert "tiny.avx512.o" not in compiler.targets()
    log = (built.file.parent / "build.log").read_text(encoding="utf-8")
    assert "avx512 is left out, the compiler does not know it:\nunknown: -mavx512f" in log


def test_another_architecture_has_the_baseline_alone(
    sources: Sources, compiler: FakeCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The flags of the others mean nothing there."""
    monkeypatch.setattr(flags.platform, "machine", lambda: "aarch64")
    assert build_sources(sources).isas == ("baseline",)


def test_force(sources: Sources, compiler: FakeCompiler) -> None:
    """Everything is compiled again, into the same place."""
    first = build_sources(sources)
    count = len(compiler.targets())
    again = build_sources(sources, force=True)
    assert (again.file, again.compiled) == (first.file, True)
    assert len(compiler.targets()) == 2 * count


def damage_library(built: Built) -> None:
    """One byte differs."""
    built.file.write_bytes(b"M" + built.file.read_bytes()[1:])


def truncate_library(built: Built) -> None:
    """The end is missing."""
    built.file.write_bytes(built.file.read_bytes()[:-3])


def remove_library(built: Built) -> None:
    """Only its record is left."""
    built.file.unlink()


def truncate_record(built: Built) -> None:
    """Half of it was written."""
    file = built.file.with_name(RECORD)
    file.write_text(file.read_text(encoding="utf-8")[:60], encoding="utf-8")


def age_record(built: Built) -> None:
    """The fields are those of another version."""
    built.file.with_name(RECORD).write_text('{"isas": [], "size": 1}', encoding="utf-8")


def garble_record(built: Built) -> None:
    """The bytes are no text at all."""
    built.file.with_name(RECORD).write_bytes(b"\xff\xfe\x00[]")


@pytest.mark.parametrize(
    "damage",
    [
        damage_library,
        truncate_library,
        remove_library,
        truncate_record,
        age_record,
        garble_record,
    ],
)
def test_what_is_damaged_is_built_again(
    sources: Sources, compiler: FakeCompiler, damage: object
) -> None:
    """Whatever happened to the files of the cache."""
    built = build_sources(sources)
    assert callable(damage)
    damage(built)
    assert verified(built.file.parent, "cache") is None
    assert ready(sources) is None
    assert build_sources(sources).compiled
    assert ready(sources) is not None


def test_an_interrupted_build_leaves_nothing_behind(
    sources: Sources, compiler: FakeCompiler
) -> None:
    """Its folder goes with the next build; a library is there only when it is whole."""
    built = build_sources(sources)
    leftover = built.file.parent / "building-before"
    leftover.mkdir()
    (leftover / flags.NAME).write_bytes(b"half")
    built.file.unlink()
    build_sources(sources)
    assert not leftover.exists()


FAIL = 'case "$target" in *bindings.o) echo "tiny.cpp:3: error: no such thing" >&2; exit 1;; esac'


def test_a_compiler_that_refuses(sources: Sources, compiler: FakeCompiler, cache: Path) -> None:
    """Its last lines, one sentence, where the log is; then the same reason without a compiler."""
    compiler.write(FAIL)
    with pytest.raises(BuildError) as caught:
        build_sources(sources)
    (log,) = cache.glob("*/build.log")
    assert str(caught.value) == (
        "tiny.cpp:3: error: no such thing\n"
        "build: the C++ compiler could not compile the CPU kernels: try another, "
        f"CXX=NAME normkit build (the log is {log})."
    )
    assert "tiny.cpp:3: error: no such thing\nexit code 1" in log.read_text(encoding="utf-8")
    asked = len(compiler.targets())
    with pytest.raises(CannotBuild, match=f"the log is {log}") as refused:
        ready(sources)
    assert refused.value.lines == "tiny.cpp:3: error: no such thing"
    assert len(compiler.targets()) == asked


def test_a_failure_is_forgotten(
    sources: Sources, compiler: FakeCompiler, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With another torch, whose headers may do; and after a build that worked."""
    compiler.write(FAIL)
    with pytest.raises(BuildError):
        build_sources(sources)
    with monkeypatch.context() as other:
        other.setattr(torch, "__version__", "2.99.0")
        assert ready(sources) is None
    compiler.write()
    assert build_sources(sources).compiled
    assert ready(sources) is not None
    assert not list(cache.glob("*/failure.json"))


def test_after_a_failure_the_library_of_another_compiler_serves(
    sources: Sources, compiler: FakeCompiler, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """CXX=NAME normkit build helps later calls that do not set CXX."""
    (tmp_path / "other").mkdir()
    other = FakeCompiler(tmp_path / "other")
    other.write()
    compiler.write(FAIL)
    with pytest.raises(BuildError):
        build_sources(sources)
    monkeypatch.setenv("CXX", str(other.file))
    built = build_sources(sources)
    monkeypatch.setenv("CXX", str(compiler.file))
    found = ready(sources)
    assert found is not None
    assert found.file == built.file


@pytest.mark.usefixtures("nobody")
def test_no_compiler(sources: Sources) -> None:
    """What was looked for, and what to type."""
    with pytest.raises(BuildError) as caught:
        build_sources(sources)
    assert str(caught.value) == (
        "build: there is no C++ compiler to compile the CPU kernels (CXX is not set, and none of "
        f"c++, g++, clang++ is on PATH): {CURES}."
    )


def test_no_compiler_but_a_library(
    sources: Sources, compiler: FakeCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was built ahead serves where there is no compiler: an image in two stages."""
    built = build_sources(sources)
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", "")
    found = ready(sources)
    assert found is not None
    assert found.file == built.file


@pytest.mark.parametrize(
    ("script", "came"),
    [(None, "No such file or directory"), ("exit 3", "it ends with exit code 3")],
)
def test_a_compiler_that_does_not_run(
    sources: Sources, compiler: FakeCompiler, script: str | None, came: str
) -> None:
    """CXX names nothing, or something that fails."""
    compiler.file.unlink()
    if script is not None:
        compiler.file.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        compiler.file.chmod(0o755)
    with pytest.raises(BuildError) as caught:
        build_sources(sources)
    assert str(caught.value) == (
        f"build: the C++ compiler of CXX, {compiler.file}, does not run ({came}): {CURES}."
    )


def test_cxx_may_have_several_words(
    compiler: FakeCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as a compiler cache before the compiler."""
    monkeypatch.setenv("CXX", f"env A=1 {compiler.file}")
    assert find_compiler() == Compiler(
        words=("env", "A=1", str(compiler.file)), identity="fake compiler 1.0"
    )


def test_windows_is_not_supported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Said without looking for a compiler."""
    monkeypatch.setattr("normkit.kernels.cpu.compiler.sys.platform", "win32")
    with pytest.raises(CannotBuild, match="not supported on Windows: use torch operations"):
        find_compiler()


def test_a_torch_without_the_headers(
    sources: Sources, compiler: FakeCompiler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some builds of torch leave them out."""
    monkeypatch.setattr(torch, "__file__", str(tmp_path / "torch" / "__init__.py"))
    with pytest.raises(BuildError, match="brings no headers of its stable ABI"):
        build_sources(sources)


def test_commands_end_with_the_caller(
    sources: Sources, compiler: FakeCompiler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C stops the compilers that run, and the next build starts from nothing."""

    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    started: list[processes.Run] = []
    start = processes._start

    def note(command: processes.Command, output: Path) -> processes.Run:
        started.append(start(command, output))
        return started[-1]

    compiler.write("exec sleep 60")
    recipe = Recipe(sources=sources, compiler=find_compiler())
    monkeypatch.setattr(compiling, "_known_isas", lambda *args: ("baseline",))
    monkeypatch.setattr(processes, "_start", note)
    monkeypatch.setattr(processes.time, "sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        compiling.compile_library(recipe, tmp_path)
    assert started
    assert all(run.process.returncode is not None for run in started)


def test_a_wheel_keeps_its_library(sources: Sources, compiler: FakeCompiler) -> None:
    """It is taken first, if it is of these sources and for this machine; --force is refused."""
    built = build_sources(sources)
    folder = sources.folder / "lib"
    folder.mkdir()
    for name in (flags.NAME, RECORD):
        (folder / name).write_bytes((built.file.parent / name).read_bytes())
    assert build_sources(sources).file == folder / flags.NAME
    with pytest.raises(BuildError) as caught:
        build_sources(sources, force=True)
    assert str(caught.value) == (
        "build: this install brought its CPU kernels compiled, and takes no others; they are "
        f"{folder / flags.NAME}. To compile your own, install normkit from its sources."
    )
    record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    for field in ("machine", "sources", "stable_abi"):
        text = json.dumps({**record, field: "another"})
        (folder / RECORD).write_text(text, encoding="utf-8")
        assert build_sources(sources).file == built.file
