"""The Python twin of ``normkit build``."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from normkit.errors import BuildError
from normkit.kernels.cpu.cache import build_in_cache, cache_root, folder_of
from normkit.kernels.cpu.compiler import find_compiler
from normkit.kernels.cpu.compiling import Recipe
from normkit.kernels.cpu.failure import CannotBuild
from normkit.kernels.cpu.finding import of_package
from normkit.kernels.cpu.library import forget
from normkit.kernels.cpu.record import Library, verified
from normkit.kernels.cpu.sources import OURS, Sources

__all__ = ["Built", "build"]  # for everyone; build_sources is for tests


@dataclass(frozen=True, kw_only=True)
class Built:
    """A library that is ready to be loaded.

    Attributes:
        file: where it is; ``size_bytes`` its size.
        origin: ``package`` where a wheel brought it, else ``cache``.
        compiler: what compiled it.
        isas: the instruction sets that it was compiled for.
        seconds: how long compiling took; 0 where it was there.
        compiled: whether it was compiled now.
    """

    file: Path
    size_bytes: int
    origin: str
    compiler: str
    isas: tuple[str, ...]
    seconds: float
    compiled: bool


def build(*, force: bool = False) -> Built:
    """Compile the CPU kernels into the cache, unless they are there; the twin of ``normkit build``.

    Args:
        force: compile even where a sound library is there. A process that has loaded the one
            before keeps it.

    Raises:
        BuildError: no compiler, a compiler that refuses, a cache that cannot be written; or
            ``force`` where a wheel brought its library, which is always taken first.

    Example:
        ``built = normkit.kernels.cpu.build()``, then ``built.file`` and ``built.isas``.
    """
    return build_sources(OURS, force=force)


def build_sources(sources: Sources, *, force: bool = False) -> Built:
    """Do what :func:`build` does, with any sources."""
    start = time.perf_counter()
    found = of_package(sources)
    if found is not None and force:
        raise BuildError(
            f"build: this install brought its CPU kernels compiled, and takes no others; they are "
            f"{found.file}. To compile your own, install normkit from its sources."
        )
    if found is not None:
        return _built(found)
    try:
        recipe = Recipe(sources=sources, compiler=find_compiler())
        found = None if force else verified(folder_of(recipe), "cache")
        if found is not None:
            return _built(found)
        found = build_in_cache(recipe, say=_nothing, force=force)
    except CannotBuild as error:
        lines = f"{error.lines}\n" if error.lines else ""
        raise BuildError(f"{lines}build: {error.reason}.") from error
    except OSError as error:
        came = error.strerror or str(error)
        raise BuildError(
            f"build: the cache must be a folder that can be written; {cache_root()} cannot "
            f"({came}). XDG_CACHE_HOME=FOLDER names another."
        ) from error
    forget()
    return _built(found, seconds=time.perf_counter() - start)


def _built(library: Library, seconds: float = 0.0) -> Built:
    record = library.record
    return Built(
        file=library.file,
        size_bytes=record.size,
        origin=library.origin,
        compiler=record.compiler,
        isas=record.isas,
        seconds=seconds,
        compiled=seconds > 0,
    )


def _nothing(text: str) -> None:
    """Whoever asked for the build is told in other ways."""
