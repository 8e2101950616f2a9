"""What the tests of the build share: a cache, sources and a compiler of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from normkit.kernels.cpu import library
from normkit.kernels.cpu.sources import Sources
from tests.kernels.tiny import FakeCompiler, write_sources


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    """The library in miniature."""
    return write_sources(tmp_path / "sources")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "normkit"


@pytest.fixture
def compiler(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> FakeCompiler:
    """A compiler that CXX names, with an empty cache."""
    found = FakeCompiler(tmp_path)
    found.write()
    monkeypatch.setenv("CXX", str(found.file))
    return found


@pytest.fixture
def nobody(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No compiler anywhere, and an empty cache."""
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))


@pytest.fixture
def unasked(sources: Sources, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if this process had not asked for the library yet, which is that of ``sources``."""
    monkeypatch.setattr("normkit.kernels.cpu.sources.OURS", sources)
    monkeypatch.setattr("normkit.kernels.cpu.building.OURS", sources)
    monkeypatch.setattr(library, "_settled", False)
    monkeypatch.setattr(library, "_namespace", None)
    monkeypatch.setattr(library, "_status", library.Status())
    monkeypatch.delenv("NORMKIT_CPU", raising=False)
