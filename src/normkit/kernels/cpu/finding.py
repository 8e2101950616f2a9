"""Where the library is: in the package, in the cache, or still to be compiled."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from normkit.errors import check_choice
from normkit.kernels.cpu.cache import (
    any_compilers,
    build_for_this_process,
    build_in_cache,
    cache_root,
    folder_of,
    past_failure,
)
from normkit.kernels.cpu.compiler import find_compiler
from normkit.kernels.cpu.compiling import Recipe
from normkit.kernels.cpu.failure import CannotBuild
from normkit.kernels.cpu.flags import STABLE_ABI
from normkit.kernels.cpu.key import machine
from normkit.kernels.cpu.record import Library, verified
from normkit.kernels.cpu.sources import Sources

SWITCH = "NORMKIT_CPU"


def switched_off() -> bool:
    """Whether the environment says NORMKIT_CPU=off."""
    value = os.environ.get(SWITCH, "")
    check_choice("normkit", SWITCH, value, ("", "on", "off"))
    return value == "off"


def say(text: str) -> None:
    """Tell the person one line; stdout belongs to programs."""
    print(f"normkit: {text}.", file=sys.stderr, flush=True)


def ready(sources: Sources) -> Library | None:
    """A library that needs no compiling: of the package, or of the cache; None where there is none.

    Raises:
        CannotBuild: there is none, and one cannot be compiled either.
    """
    found = of_package(sources)
    if found is not None:
        return found
    try:
        recipe = Recipe(sources=sources, compiler=find_compiler())
        found = verified(folder_of(recipe), "cache")
        if found is None and (failure := past_failure(recipe)):
            raise failure
    except CannotBuild:  # a library by another compiler, on another day, is as good
        found = any_compilers(sources)
        if found is None:
            raise
    return found


def of_package(sources: Sources) -> Library | None:
    """The library that a wheel brought, if it was made of these sources for this machine."""
    found = verified(sources.folder / "lib", "package")
    if found is None:
        return None
    record = found.record
    wanted = (sources.digest(), STABLE_ABI, machine())
    return found if (record.sources, record.stable_abi, record.machine) == wanted else None


def compiled(sources: Sources) -> tuple[Library, tempfile.TemporaryDirectory[str] | None]:
    """Compile into the cache; where it cannot be written, into a folder for this process alone.

    The second value is that folder, which the caller removes.

    Raises:
        CannotBuild: there is no compiler, it refuses, or no folder can be written.
    """
    recipe = Recipe(sources=sources, compiler=find_compiler())
    try:
        return build_in_cache(recipe, say=say), None
    except OSError as error:
        say(
            f"its cache {cache_root()} cannot be used ({_words(error)}); compiling its CPU kernels "
            f"for this process alone, about {recipe.about_seconds} s. XDG_CACHE_HOME can name "
            "another folder"
        )
    try:
        folder = tempfile.TemporaryDirectory(prefix="normkit-")
    except OSError as error:
        raise _no_room(error) from error
    try:
        return build_for_this_process(recipe, Path(folder.name)), folder
    except BaseException as error:
        folder.cleanup()
        if isinstance(error, OSError):
            raise _no_room(error) from error
        raise


def _no_room(error: OSError) -> CannotBuild:
    return CannotBuild(
        f"the CPU kernels cannot be compiled: neither the cache {cache_root()} nor a temporary "
        f"folder can be written ({_words(error)}); XDG_CACHE_HOME and TMPDIR can name others"
    )


def _words(error: OSError) -> str:
    return error.strerror or str(error)
