"""The C++ sources of a library, wherever they lie."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

_SUFFIXES = (".cpp", ".h")


@dataclass(frozen=True, kw_only=True)
class Sources:
    """A folder with ``common/`` (headers), ``compute/`` (once per ISA) and ``bindings/`` (once)."""

    folder: Path

    def compute(self) -> list[Path]:
        """The files that are compiled once for each instruction set; they know no torch."""
        return sorted((self.folder / "compute").glob("*.cpp"))

    def bindings(self) -> list[Path]:
        """The files that are compiled once, against torch's stable ABI."""
        return sorted((self.folder / "bindings").glob("*.cpp"))

    def digest(self) -> str:
        """A hash of every byte that the compiler can read here, and of the files' names."""
        found = hashlib.sha256()
        for file in sorted(self.folder.rglob("*")):
            if file.suffix in _SUFFIXES:
                text = file.read_bytes()
                name = file.relative_to(self.folder).as_posix()
                found.update(f"{name}\0{len(text)}\0".encode())
                found.update(text)
        return found.hexdigest()


OURS = Sources(folder=Path(__file__).parent)
