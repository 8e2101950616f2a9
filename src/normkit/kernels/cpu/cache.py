"""The folder of the person who runs this in which compiled libraries are kept."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from normkit.kernels.cpu.compiling import LOG, Recipe, compile_library
from normkit.kernels.cpu.failure import CannotBuild
from normkit.kernels.cpu.flags import NAME
from normkit.kernels.cpu.key import compiler_key, source_key
from normkit.kernels.cpu.record import RECORD, Library, verified
from normkit.kernels.cpu.sources import Sources

Say = Callable[[str], None]
_SCRATCH = "building-"
_FAILURE = "failure.json"


def cache_root() -> Path:
    """``$XDG_CACHE_HOME/normkit``, or ``~/.cache/normkit``."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(named) if os.path.isabs(named) else Path("~/.cache").expanduser()
    return base / "normkit"


def folder_of(recipe: Recipe) -> Path:
    """Where the library of a recipe is kept."""
    return cache_root() / f"{source_key(recipe.sources)}-{compiler_key(recipe.compiler)}"


def any_compilers(sources: Sources) -> Library | None:
    """A library that whatever compiler made of these sources, for a machine that has none."""
    folders = sorted(cache_root().glob(f"{source_key(sources)}-*"))
    return next((found for f in folders if (found := verified(f, "cache"))), None)


def build_in_cache(recipe: Recipe, *, say: Say, force: bool = False) -> Library:
    """Compile into the cache, unless another process did so meanwhile; ``force`` compiles anyway.

    Raises:
        CannotBuild: the compiler refuses.
        OSError: the cache cannot be written.
    """
    folder = folder_of(recipe)
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder, say):
        if not force and (found := verified(folder, "cache")):
            return found
        for leftover in folder.glob(f"{_SCRATCH}*"):  # of a build that was interrupted
            shutil.rmtree(leftover)
        say(
            f"compiling its CPU kernels once, about {recipe.about_seconds} s, into {folder}; "
            "`normkit build` does this ahead"
        )
        with tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=folder) as scratch:
            _compile(recipe, Path(scratch), folder)
    found = verified(folder, "cache")
    if found is None:
        raise OSError(f"{folder} does not hold what was written there")
    return found


def build_for_this_process(recipe: Recipe, folder: Path) -> Library:
    """Compile into a folder that lasts as long as the caller wants."""
    record = compile_library(recipe, folder)
    return Library(file=folder / NAME, record=record, origin="temporary")


def past_failure(recipe: Recipe) -> CannotBuild | None:
    """Why the same build failed before, with this torch: it is not tried again on every use."""
    file = folder_of(recipe) / _FAILURE
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
        same = kept["torch"] == torch.__version__
        return CannotBuild(kept["reason"], lines=kept["lines"]) if same else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _compile(recipe: Recipe, scratch: Path, folder: Path) -> None:
    """Compile beside the place, then put the files there one by one; the record comes last.

    A reader checks the bytes against the record, so it never takes half of two builds.
    """
    try:
        compile_library(recipe, scratch)
    except CannotBuild as error:
        _keep_failure(error, scratch, folder)
        raise
    for name in (LOG, NAME, RECORD):
        if (scratch / name).exists():
            os.replace(scratch / name, folder / name)
    (folder / _FAILURE).unlink(missing_ok=True)


def _keep_failure(error: CannotBuild, scratch: Path, folder: Path) -> None:
    """Keep the log, and say in the reason where it is."""
    if not (scratch / LOG).exists():
        return
    os.replace(scratch / LOG, folder / LOG)
    error.reason += f" (the log is {folder / LOG})"
    facts = {"torch": torch.__version__, "reason": error.reason, "lines": error.lines}
    written = scratch / _FAILURE
    written.write_text(json.dumps(facts), encoding="utf-8")
    os.replace(written, folder / _FAILURE)


@contextmanager
def _locked(folder: Path, say: Say) -> Iterator[None]:
    """Hold the lock of a folder; say so where another process makes this one wait."""
    from filelock import FileLock, Timeout

    lock = FileLock(folder / "lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        say("another process is compiling its CPU kernels; waiting for it")
        lock.acquire()
    except NotImplementedError as error:  # a file system without locks
        raise OSError(str(error)) from error
    try:
        yield
    finally:
        lock.release()
