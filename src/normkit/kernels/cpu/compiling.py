"""From sources to a library in a folder: one object a file and instruction set, then the link."""

from __future__ import annotations

import errno
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import torch

from normkit.kernels.cpu.compiler import Compiler
from normkit.kernels.cpu.failure import CannotBuild
from normkit.kernels.cpu.flags import (
    COMMON,
    ISAS,
    NAME,
    STABLE_ABI,
    binding_flags,
    isa_flags,
    link_flags,
    wanted_isas,
)
from normkit.kernels.cpu.key import machine
from normkit.kernels.cpu.processes import Command, cores, run_all
from normkit.kernels.cpu.record import Record, measure, write_record
from normkit.kernels.cpu.sources import Sources

LOG = "build.log"
_LAST_LINES = 12
# g++ 12 on one core, for the line that asks for patience: an instruction set, the longest object.
_ISA_S, _LONGEST_S = 75.0, 70.0


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """All that a build needs: what, and with what."""

    sources: Sources
    compiler: Compiler

    @property
    def about_seconds(self) -> int:
        """How long a build takes, roughly."""
        return int(round(max(_LONGEST_S, _ISA_S * len(wanted_isas()) / cores()), -1))


def compile_library(recipe: Recipe, folder: Path) -> Record:
    """Leave the library, its record and the log in ``folder``.

    Raises:
        CannotBuild: the compiler refuses; ``lines`` has its last words.
        OSError: the folder cannot be written, or is full.
    """
    log = folder / LOG
    include, torch_lib = _torch_folders()
    isas = _known_isas(recipe.compiler, log)
    commands = _object_commands(recipe, folder, include, isas)
    _run(sorted(commands.values(), key=_source_size, reverse=True), log)  # the longest first
    link = (*recipe.compiler.words, *map(str, commands), "-o", str(folder / NAME))
    _run([(*link, *link_flags(str(torch_lib)))], log)
    size, sha256 = measure(folder / NAME)
    record = Record(
        sha256=sha256,
        size=size,
        sources=recipe.sources.digest(),
        stable_abi=STABLE_ABI,
        machine=machine(),
        compiler=recipe.compiler.version,
        isas=isas,
    )
    write_record(folder, record)
    return record


def _torch_folders() -> tuple[Path, Path]:
    root = Path(torch.__file__).parent
    include = root / "include"
    if not (include / "torch" / "csrc" / "stable" / "library.h").is_file():
        raise CannotBuild(
            f"torch {torch.__version__} brings no headers of its stable ABI: type "
            "pip install --force-reinstall 'torch>=2.10', then normkit build"
        )
    return include, root / "lib"


def _known_isas(compiler: Compiler, log: Path) -> tuple[str, ...]:
    """Those instruction sets that this compiler can compile for; the log names the others."""
    found = []
    for isa in wanted_isas():
        test = (*compiler.words, *ISAS[isa], "-x", "c++", "-c", os.devnull, "-o", os.devnull)
        done = subprocess.run(test, capture_output=True, text=True, errors="replace", check=False)
        if isa == "baseline" or not done.returncode:
            found.append(isa)
        else:
            with log.open("a", encoding="utf-8") as file:
                file.write(f"{isa} is left out, the compiler does not know it:\n{done.stderr}")
    return tuple(found)


def _object_commands(
    recipe: Recipe, folder: Path, include: Path, isas: tuple[str, ...]
) -> dict[Path, Command]:
    """The command for each object file, in the order of the link.

    Folders of this machine are kept out of the library: it names its files from its own root.
    """
    sources, words = recipe.sources, recipe.compiler.words
    maps = (f"-ffile-prefix-map={sources.folder}=normkit", f"-ffile-prefix-map={include}=torch")
    common = (*words, *COMMON, *maps)
    commands: dict[Path, Command] = {}
    for file in sources.bindings():
        target = folder / f"{file.stem}.bindings.o"
        flags = (*binding_flags(isas), f"-I{include}")
        commands[target] = (*common, *flags, "-c", str(file), "-o", str(target))
    for isa in isas:
        for file in sources.compute():
            target = folder / f"{file.stem}.{isa}.o"
            commands[target] = (*common, *isa_flags(isa), "-c", str(file), "-o", str(target))
    return commands


def _source_size(command: Command) -> int:
    """Bytes of what an object is made of: a guess at how long it takes."""
    return Path(command[command.index("-c") + 1]).stat().st_size


def _run(commands: list[Command], log: Path) -> None:
    text = run_all(commands, log, jobs=cores())
    if text is None:
        return
    if os.strerror(errno.ENOSPC) in text:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(log.parent))
    lines = text.rstrip().splitlines()[-_LAST_LINES:]
    raise CannotBuild(
        "the C++ compiler could not compile the CPU kernels: try another, CXX=NAME normkit build",
        lines="\n".join(lines),
    )
