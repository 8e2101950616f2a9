"""The library of this process: looked for at the first use, once."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from normkit.kernels.cpu.record import Library

# What compiles is imported where something is to be compiled: `import normkit` loads none of it.


@dataclass(frozen=True, kw_only=True)
class Status:
    """Which library there is here, and why or why not; nothing is compiled to find out.

    Attributes:
        file: the library; None where there is none.
        origin: ``package`` (a wheel), ``cache`` or ``temporary``.
        isas: the instruction sets that it was compiled for.
        isa: the one that runs here; None where there is no library.
        reason: why there is none.
    """

    file: Path | None = None
    origin: str = ""
    isas: tuple[str, ...] = ()
    isa: str | None = None
    reason: str = ""


_QUIET = "NORMKIT_CPU=off asks for that, and stops this line"
_lock = threading.Lock()
_settled = False
_namespace: Any | None = None
_status = Status(reason="the CPU kernels were not asked for yet")


def loaded() -> Any | None:
    """The namespace of the compiled ops, None where there are none.

    The first call looks for the library, and compiles it where it must; it tells the person once,
    on stderr, where the answer is None without having been wanted.
    """
    return _namespace if _settled else _settle(compile_it=True)


def why_not() -> str:
    """Why there are none: a clause without a full stop, which ends in what to type."""
    loaded()
    return _status.reason


def isa() -> str | None:
    """The instruction set that the library runs with here; None where there is no library."""
    return None if loaded() is None else _status.isa


def status() -> Status:
    """Which library there is; one that would have to be compiled first is not there."""
    if not _settled:
        _settle(compile_it=False)
    return _status


def forget() -> None:
    """Look again at the next use, unless a library is loaded: it cannot be unloaded."""
    global _settled
    with _lock:
        _settled = _namespace is not None


def _settle(*, compile_it: bool) -> Any | None:
    global _settled, _namespace, _status
    with _lock:
        if not _settled:
            found = _look(compile_it=compile_it)
            _status = found
            _namespace = torch.ops.normkit_cpu if found.file else None
            _settled = compile_it or found.file is not None
        return _namespace


def _look(*, compile_it: bool) -> Status:
    from normkit.kernels.cpu import finding
    from normkit.kernels.cpu.failure import CannotBuild
    from normkit.kernels.cpu.sources import OURS

    if finding.switched_off():
        return Status(
            reason=f"{finding.SWITCH}=off forbids the CPU kernels: unset {finding.SWITCH}"
        )
    scratch = None
    try:
        library = finding.ready(OURS)
        if library is None and compile_it:
            library, scratch = finding.compiled(OURS)
        if library is None:
            reason = "the CPU kernels are not compiled yet: the first use does it, or normkit build"
            return Status(reason=reason)
        return _load(library)
    except CannotBuild as error:
        if compile_it:
            lines = f"{error.lines}\nnormkit: " if error.lines else ""
            finding.say(f"{lines}norms run as torch operations: {error.reason}. {_QUIET}")
        return Status(reason=error.reason)
    finally:
        if scratch is not None:
            scratch.cleanup()  # a library that is loaded needs its file no more


def _load(library: Library) -> Status:
    from normkit.kernels.cpu.failure import CannotBuild

    try:
        torch.ops.load_library(library.file)  # type: ignore[no-untyped-call]
    except OSError as error:
        came = error.__cause__ or error
        raise CannotBuild(
            f"the CPU kernels in {library.file} cannot be loaded ({came}): "
            "type normkit build --force"
        ) from error
    record = library.record
    isa = torch.ops.normkit_cpu.isa()
    return Status(file=library.file, origin=library.origin, isas=record.isas, isa=isa)
