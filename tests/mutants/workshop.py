"""Libraries of C++ sources that hold a bug, in seconds.

One instruction set, not optimised, only the dtypes that the tests use, and nothing compiled twice
but the files that the bug touches. The tests find the library where a wheel would have put it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.mutants.mutant import Mutant

SOURCES = "kernels/cpu"
_DISPATCH = "common/dispatch.h"
_CONVERTERS = {"compute/convert.cpp"}  # which ops of every dtype use
_INCLUDE = re.compile(r'^\s*#include "(.+)"', re.MULTILINE)
_FLAGS = ("-O0", "-w")
_DTYPES = ("float16", "bfloat16", "float32", "float64")


class WorkshopError(Exception):
    """The sources, with the bug or without, do not compile."""


class Workshop:
    """Objects of the sources as they are, each made when it is first needed.

    What a bug does not touch is compiled for float32 alone.
    """

    def __init__(self, package: Path, folder: Path) -> None:
        self._clean = package / SOURCES
        self._folder = folder
        self._lock = threading.Lock()

    def touched(self, mutant: Mutant) -> set[str]:
        """The files that must be compiled again for a bug."""
        name = mutant.file.removeprefix(f"{SOURCES}/")
        found = {unit for unit in units(self._clean) if name in reach(self._clean, unit)}
        wanted = {f"compute/{unit}.cpp" for unit in mutant.units}
        return {u for u in found if not wanted or u in wanted or u.startswith("bindings/")}

    def furnish(
        self, package: Path, dtypes: Sequence[str], needed: Iterable[str], *, patched: bool
    ) -> None:
        """Put the library of a copy of the package into it.

        Args:
            package: the copy.
            dtypes: what the ``needed`` files are compiled for.
            needed: files that the tests run.
            patched: whether those are not the same as in the sources without a bug.

        Raises:
            WorkshopError: something does not compile.
        """
        sources = package / SOURCES
        narrow(sources, dtypes)
        every, needed = set(units(sources)), set(needed)
        own = needed if patched else set()
        for_dtypes = (needed | (every & _CONVERTERS)) - own
        objects = self._objects(for_dtypes, dtypes)
        objects |= self._objects(every - own - for_dtypes, ("float32",))
        objects |= compiled(sources, sorted(own), package.parent / "objects")
        link(objects.values(), sources)

    def _objects(self, wanted: Iterable[str], dtypes: Sequence[str]) -> dict[str, Path]:
        """The objects of sources without a bug."""
        with self._lock:
            sources = self._narrowed(dtypes)
            every = self._folder / "every"  # what no dtype decides
            own = self._folder / "_".join(sorted(dtypes))
            where = {u: own if _DISPATCH in reach(sources, u) else every for u in sorted(wanted)}
            for folder in (every, own):
                here = [u for u in where if where[u] == folder]
                compiled(sources, [u for u in here if not _object(folder, u).exists()], folder)
            return {unit: _object(folder, unit) for unit, folder in where.items()}

    def _narrowed(self, dtypes: Sequence[str]) -> Path:
        sources = self._folder / f"sources-{'_'.join(sorted(dtypes))}"
        if not sources.exists():
            shutil.copytree(self._clean, sources)
            narrow(sources, dtypes)
        return sources


def units(sources: Path) -> list[str]:
    """The files that are compiled."""
    found = [*sources.glob("compute/*.cpp"), *sources.glob("bindings/*.cpp")]
    return sorted(file.relative_to(sources).as_posix() for file in found)


def reach(sources: Path, name: str) -> set[str]:
    """A file and all of ours that it includes."""
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        file = waiting.pop()
        if file in seen or not (sources / file).is_file():
            continue
        seen.add(file)
        for other in _INCLUDE.findall((sources / file).read_text(encoding="utf-8")):
            path = (sources / file).parent.joinpath(other).resolve()
            if path.is_relative_to(sources.resolve()):
                waiting.append(path.relative_to(sources.resolve()).as_posix())
    return seen


def narrow(sources: Path, dtypes: Sequence[str]) -> None:
    """Take the branches of other dtypes out of the dispatch: most of the time to compile."""
    file = sources / _DISPATCH
    text = file.read_text(encoding="utf-8")
    others = "|".join(name for name in _DTYPES if name not in dtypes)
    if not others:
        return
    text = re.sub(rf"case Dtype::({others}): return body\([^;]*;", "", text)
    mixed = rf"if \([^;{{]*Dtype::({others})\) (\{{\s*)?return body\([^;]*;(?(2)\s*\}})"
    file.write_text(re.sub(mixed, "", text), encoding="utf-8")


def compiled(sources: Path, names: Iterable[str], folder: Path) -> dict[str, Path]:
    """Compile files side by side; the object of each."""
    from normkit.kernels.cpu.processes import cores

    folder.mkdir(parents=True, exist_ok=True)
    names = list(names)
    with ThreadPoolExecutor(cores()) as pool:
        done = pool.map(lambda name: _compile(sources, name, _object(folder, name)), names)
        return dict(zip(names, done, strict=True))


def link(objects: Iterable[Path], sources: Path) -> None:
    """Make the library and its record where the package of a wheel has them."""
    import torch

    from normkit.kernels.cpu import flags
    from normkit.kernels.cpu.key import machine
    from normkit.kernels.cpu.record import Record, measure, write_record
    from normkit.kernels.cpu.sources import Sources

    folder = sources / "lib"
    folder.mkdir(exist_ok=True)
    torch_lib = str(Path(torch.__file__).parent / "lib")
    words = [*map(str, objects), "-o", str(folder / flags.NAME)]
    _run([*_compiler(), *words, *flags.link_flags(torch_lib)])
    size, sha256 = measure(folder / flags.NAME)
    record = Record(
        sha256=sha256,
        size=size,
        sources=Sources(folder=sources).digest(),
        stable_abi=flags.STABLE_ABI,
        machine=machine(),
        compiler="of the workshop",
        isas=("baseline",),
    )
    write_record(folder, record)


def _compile(sources: Path, name: str, target: Path) -> Path:
    import torch

    from normkit.kernels.cpu import flags

    if name.startswith("compute/"):
        # The best that runs here, under the name that a library always has.
        best = {"AVX512": "avx512", "AVX2": "avx2"}.get(torch.backends.cpu.get_cpu_capability())
        own = (*flags.ISAS[best or "baseline"], "-DNORMKIT_ISA=baseline")
    else:
        own = (f"-I{Path(torch.__file__).parent / 'include'}",)
    common = [flag for flag in flags.COMMON if not flag.startswith("-O")]
    _run([*_compiler(), *common, *_FLAGS, *own, "-c", str(sources / name), "-o", str(target)])
    return target


def _compiler() -> tuple[str, ...]:
    from normkit.kernels.cpu.compiler import find_compiler

    return find_compiler().words


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if "error" in line]
        raise WorkshopError((errors or done.stderr.splitlines() or ["it says nothing"])[0])


def _object(folder: Path, name: str) -> Path:
    return folder / f"{name.replace('/', '-').removesuffix('.cpp')}.o"
