"""The file beside a library that says what it is, and by which a damaged one is known."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from normkit.kernels.cpu.flags import NAME

RECORD = "library.json"
Origin = Literal["package", "cache", "temporary"]


@dataclass(frozen=True, kw_only=True)
class Record:
    """What was compiled, from what, with what."""

    sha256: str
    size: int  # bytes
    sources: str  # digest
    stable_abi: str
    machine: str
    compiler: str
    isas: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Library:
    """A library whose bytes are those of its record, and where it came from."""

    file: Path
    record: Record
    origin: Origin


def write_record(folder: Path, record: Record) -> Path:
    """Write the record of the library in ``folder``."""
    file = folder / RECORD
    file.write_text(json.dumps(asdict(record), indent=1) + "\n", encoding="utf-8")
    return file


def verified(folder: Path, origin: Origin) -> Library | None:
    """The library in ``folder``; None where there is none, or not the one that was written."""
    file = folder / NAME
    try:
        record = _read(folder / RECORD)
        size, sha256 = measure(file)
    except (OSError, ValueError, TypeError):  # missing, cut short, or of another version's form
        return None
    if (size, sha256) != (record.size, record.sha256):
        return None
    return Library(file=file, record=record, origin=origin)


def measure(file: Path) -> tuple[int, str]:
    """Size and SHA-256 of a file."""
    content = file.read_bytes()
    return len(content), hashlib.sha256(content).hexdigest()


def _read(file: Path) -> Record:
    fields = json.loads(file.read_text(encoding="utf-8"))
    return Record(**{**fields, "isas": tuple(fields["isas"])})
