"""The key of a library: every byte that decides what is in it, and nothing else."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from normkit.kernels.cpu import key
from normkit.kernels.cpu.compiler import Compiler
from normkit.kernels.cpu.sources import Sources
from tests.kernels.tiny import FILES, write_sources

GCC = Compiler(words=("c++",), identity="c++ (Debian) 12.2.0\nCopyright")


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    """The library in miniature."""
    return write_sources(tmp_path / "sources")


@pytest.mark.parametrize("name", FILES)
def test_a_byte_of_a_source_counts(sources: Sources, name: str) -> None:
    """Headers, compute files and bindings alike."""
    before, file = key.source_key(sources), sources.folder / name
    content = file.read_bytes()
    file.write_bytes(content[:-1] + b" ")
    assert key.source_key(sources) != before
    file.write_bytes(content)
    assert key.source_key(sources) == before


def test_the_name_of_a_source_counts(sources: Sources) -> None:
    """A file that moves, too: what includes it finds it elsewhere."""
    before = key.source_key(sources)
    (sources.folder / "common" / "tiny.h").rename(sources.folder / "compute" / "tiny.h")
    assert key.source_key(sources) != before


def test_other_files_do_not_count(sources: Sources) -> None:
    """No compiler reads the Python beside them."""
    before = key.source_key(sources)
    (sources.folder / "library.py").write_text("x = 1\n", encoding="utf-8")
    assert key.source_key(sources) == before


@pytest.mark.parametrize(
    ("name", "value"),
    [("COMMON", ("-O2",)), ("ISAS", {"baseline": ()}), ("STABLE_ABI", "0x020b000000000000")],
)
def test_flags_count(
    sources: Sources, monkeypatch: pytest.MonkeyPatch, name: str, value: object
) -> None:
    """Flags, instruction sets and the version of torch's stable ABI."""
    before = key.source_key(sources)
    monkeypatch.setattr(key, name, value)
    assert key.source_key(sources) != before


@pytest.mark.parametrize("what", ["machine", "_c_library"])
def test_the_machine_counts(sources: Sources, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """A home folder can be shared by machines of several kinds."""
    before = key.source_key(sources)
    monkeypatch.setattr(key, what, lambda: "another")
    assert key.source_key(sources) != before


def test_the_version_of_torch_does_not_count(
    sources: Sources, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One library serves every torch that has the stable ABI."""
    before = key.source_key(sources)
    monkeypatch.setattr(torch, "__version__", "2.99.0")
    assert key.source_key(sources) == before


def test_the_compiler_counts() -> None:
    """Its command, and every line that it says of itself."""
    same = Compiler(words=GCC.words, identity=GCC.identity)
    assert key.compiler_key(GCC) == key.compiler_key(same)
    for change in ({"words": ("c++", "-m32")}, {"identity": "c++ (Debian) 12.2.0\nTarget: x"}):
        assert key.compiler_key(dataclasses.replace(GCC, **change)) != key.compiler_key(GCC)
    assert GCC.version == "c++ (Debian) 12.2.0"
