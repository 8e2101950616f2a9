"""Commands run side by side, none left running."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from normkit.kernels.cpu.failure import CannotBuild

Command = Sequence[str]
_POLL_S = 0.02


@dataclass(frozen=True)
class Run:
    """A command that runs, and the file that takes what it prints."""

    command: Command
    process: subprocess.Popen[bytes]
    output: Path
    start_s: float


def cores() -> int:
    """How many processes this one may keep busy."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_all(commands: Sequence[Command], log: Path, *, jobs: int) -> str | None:
    """Run the commands, ``jobs`` at a time; return what the first that fails prints, else None.

    All that is run and printed goes to ``log``. Whatever ends this call ends the commands too.
    """
    waiting, running = list(enumerate(commands)), list[Run]()
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                index, command = waiting.pop(0)
                running.append(_start(command, log.with_name(f"output-{index}")))
            failed = [_finish(run, log) for run in running if run.process.poll() is not None]
            running = [run for run in running if run.process.returncode is None]
            for text in failed:
                if text is not None:
                    return text
            time.sleep(_POLL_S)
    finally:
        for run in running:
            run.process.kill()
            run.process.wait()
    return None


def _start(command: Command, output: Path) -> Run:
    environment = {**os.environ, "LC_ALL": "C"}  # _disk_is_full reads what is printed
    with output.open("wb") as file:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=environment,
            )
        except OSError as error:
            raise CannotBuild(f"{command[0]} cannot be started: {error}") from error
    return Run(command, process, output, time.perf_counter())


def _finish(run: Run, log: Path) -> str | None:
    """Append a finished command and its output to the log; return the output if it failed."""
    text = run.output.read_text(encoding="utf-8", errors="replace")
    seconds = time.perf_counter() - run.start_s
    with log.open("a", encoding="utf-8") as file:
        file.write(f"$ {shlex.join(run.command)}\n{text}")
        file.write(f"exit code {run.process.returncode} after {seconds:.1f} s\n")
    return text if run.process.returncode else None
