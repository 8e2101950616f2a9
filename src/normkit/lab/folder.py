"""The folder of a comparison: who may write to it, and what stands where.

``OUT/{recipe.json, page.html, pictures/, runs/<run-id>/{config.json, records.jsonl,
checkpoint.pt, result.json}}``
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from normkit.errors import StateError, sentence

PLAN = "recipe.json"
LOCK = ".lock"


def write_aside(path: Path, data: bytes) -> None:
    """Write a file whole or not at all: aside first, then moved into place."""
    aside = path.with_name(path.name + ".part")
    aside.write_bytes(data)
    os.replace(aside, path)


def write_json(path: Path, data: object) -> None:
    """Write JSON whole or not at all."""
    write_aside(path, (json.dumps(data, indent=2) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """Read a file that :func:`write_json` wrote."""
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return data


def run_folder(out: Path, run_id: str) -> Path:
    """Where one run writes."""
    return out / "runs" / run_id


def new_name(recipe: str, parent: Path = Path("runs")) -> Path:
    """The first of ``runs/<recipe>-1``, ``-2`` ... that does not exist."""
    names = (parent / f"{recipe}-{number}" for number in itertools.count(1))
    return next(path for path in names if not path.exists())


def check_new(out: Path) -> None:
    """Raise :class:`StateError` unless a new comparison can be written to ``out``."""
    if not out.exists():
        return
    rule = "out must be a new or an empty folder"
    if not out.is_dir():
        raise StateError(sentence("compare", rule, f"'{out}' is a file"))
    if (out / PLAN).exists():
        fix = "Add --resume (in Python resume=True) to go on with it, or choose another out"
        raise StateError(sentence("compare", rule, f"'{out}' holds a comparison", fix))
    if any(child.name != LOCK for child in out.iterdir()):
        came = f"'{out}' holds other files"
        raise StateError(sentence("compare", rule, came, "Choose another out"))


def read_plan(out: Path) -> dict[str, Any]:
    """What an earlier call wrote to ``out``, for ``--resume``."""
    if not (out / PLAN).exists():
        rule = "resume needs the folder of an earlier comparison"
        came = f"'{out}' has no {PLAN}" if out.is_dir() else f"there is no folder '{out}'"
        raise StateError(sentence("compare", rule, came, "Leave --resume out to start one"))
    try:
        plan = read_json(out / PLAN)
        whole = {"recipe", "options", "text", "threads", "runs"} <= plan.keys()
    except (ValueError, AttributeError):
        whole = False
    if not whole:
        rule = "resume needs the folder of an earlier comparison"
        came = f"'{out / PLAN}' is not what normkit wrote"
        raise StateError(sentence("compare", rule, came, "Choose another out"))
    return plan


def read_result(run: Path) -> dict[str, Any] | None:
    """What a run wrote at its end; None where it has not ended.

    Raises:
        StateError: the result, or the records that belong to it, are not as they were written.
    """
    if not (run / "result.json").exists():
        return None
    try:
        result = read_json(run / "result.json")
        whole = result["records_bytes"] == (run / "records.jsonl").stat().st_size
    except (ValueError, KeyError, TypeError, OSError):
        whole = False
    if not whole:
        rule = "the files of a finished run must be as they were written"
        fix = "Delete that folder and resume: the run starts again"
        raise StateError(sentence("compare", rule, f"those in '{run}' are not", fix))
    return result


@contextmanager
def locked(out: Path) -> Iterator[None]:
    """Hold the folder alone; the system lets go when the process ends, however it ends."""
    out.mkdir(parents=True, exist_ok=True)
    lock = FileLock(out / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        rule = "one process at a time may write to a folder"
        came = f"another one is writing to '{out}'"
        fix = "Wait until it is done, or choose another out"
        raise StateError(sentence("compare", rule, came, fix)) from None
    try:
        yield
    finally:
        lock.release()
