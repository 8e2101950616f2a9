"""Runs side by side in worker processes; one that dies is reported and the others go on."""

from __future__ import annotations

import collections
import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, Protocol

from normkit.lab.config import RunConfig
from normkit.lab.folder import run_folder, write_aside

Status = Literal["finished", "diverged", "failed"]


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes:
        status: ``diverged`` is a result; ``failed`` is not: ``error`` says what happened.
        step: where it ended; None for a run that failed.
    """

    run: str
    status: Status
    step: int | None = None
    tokens_per_s: float | None = None
    error: str = ""


class Listener(Protocol):
    """What is told how the runs go."""

    def started(self, run: str) -> None:
        """A worker took the run."""

    def progress(self, run: str, step: int, loss: float, tokens_per_s: float) -> None:
        """About twice a second."""

    def ended(self, outcome: Outcome) -> None:
        """A run finished, diverged or failed."""


class Pool:
    """Worker processes that share one list of runs.

    Args:
        out: folder of the comparison.
        text: absolute path of the text, None for the built-in one.
        threads: torch threads of each worker.

    A worker is a fresh ``python -m normkit.lab.worker``, not a fork and not a spawn: it works from
    a notebook and from a script without a ``__main__`` guard, and inherits no threads.
    """

    def __init__(self, out: Path, *, text: str | None, threads: int) -> None:
        self.out, self.text, self.threads = out, text, threads
        self._events: queue.Queue[tuple[_Worker, dict[str, Any] | None]] = queue.Queue()
        self._waiting: collections.deque[RunConfig] = collections.deque()
        self._workers: set[_Worker] = set()

    def run(self, configs: Iterable[RunConfig], *, jobs: int, listener: Listener) -> list[Outcome]:
        """Run all, ``jobs`` at a time, and return their outcomes in the order they ended.

        On any exception, Ctrl-C included, the workers are stopped before it goes on: what they
        wrote is resumable.
        """
        self._waiting.extend(configs)
        outcomes: list[Outcome] = []
        try:
            for _ in range(min(jobs, len(self._waiting))):
                self._start_worker(listener)
            while self._workers:
                outcomes += self._handle(*self._events.get(), listener)
        finally:
            for worker in self._workers:
                worker.stop()
        return outcomes

    def _start_worker(self, listener: Listener) -> None:
        worker = _Worker(self.threads, self._events)
        self._workers.add(worker)
        self._next(worker, listener)

    def _next(self, worker: _Worker, listener: Listener) -> None:
        """Give the worker the next run, or send it home."""
        if not self._waiting:
            worker.run = None
            worker.close()
            return
        config = self._waiting.popleft()
        worker.run = config.id
        listener.started(config.id)
        folder = run_folder(self.out, config.id)
        worker.send({"config": config.to_dict(), "text": self.text, "folder": str(folder)})

    def _handle(
        self, worker: _Worker, message: dict[str, Any] | None, listener: Listener
    ) -> list[Outcome]:
        if message is None:
            return self._worker_gone(worker, listener)
        run = worker.run
        assert run is not None  # a worker speaks only about its run
        if message["kind"] == "progress":
            listener.progress(run, message["step"], message["loss"], message["tokens_per_s"])
            return []
        if message["kind"] == "done":
            result = message["result"]
            outcome = Outcome(run, result["status"], result["step"], result["tokens_per_s"])
        else:
            outcome = self._failed(run, message["error"], message["traceback"])
        listener.ended(outcome)
        self._next(worker, listener)
        return [outcome]

    def _worker_gone(self, worker: _Worker, listener: Listener) -> list[Outcome]:
        """Its output ended. If it had a run, it died: report the run, and replace the worker."""
        self._workers.discard(worker)
        reason, errors = worker.post_mortem()
        if worker.run is None:
            return []
        outcome = self._failed(worker.run, reason, errors)
        listener.ended(outcome)
        if self._waiting:
            self._start_worker(listener)
        return [outcome]

    def _failed(self, run: str, error: str, details: str) -> Outcome:
        folder = run_folder(self.out, run)
        folder.mkdir(parents=True, exist_ok=True)
        write_aside(folder / "error.txt", f"{error}\n\n{details}".encode())
        return Outcome(run, "failed", error=error)


class _Worker:
    """One process, and the thread that reads what it tells."""

    def __init__(
        self, threads: int, events: queue.Queue[tuple[_Worker, dict[str, Any] | None]]
    ) -> None:
        self.run: str | None = None
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  lives as long as the process
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "normkit.lab.worker", str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env=_environment(threads),
            encoding="utf-8",
            # Ctrl-C in a terminal goes to the parent alone, which stops its workers itself.
            start_new_session=True,
        )
        read: Callable[[], None] = lambda: self._read(events)  # noqa: E731
        self._reader = threading.Thread(target=read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, job: dict[str, Any]) -> None:
        with contextlib.suppress(BrokenPipeError):  # it died; the reader thread reports that
            self._stdin.write(json.dumps(job) + "\n")
            self._stdin.flush()

    def close(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._stdin.close()

    def stop(self) -> None:
        self._process.kill()
        self.post_mortem()

    def post_mortem(self) -> tuple[str, str]:
        """Wait for the end; return the reason in one line and what was on stderr."""
        code = self._process.wait()
        self._reader.join()
        self.close()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._stderr.seek(0)
        errors = self._stderr.read().decode(errors="replace")
        self._stderr.close()
        return _reason(code), errors

    @property
    def _stdin(self) -> IO[str]:
        assert self._process.stdin is not None
        return self._process.stdin

    def _read(self, events: queue.Queue[tuple[_Worker, dict[str, Any] | None]]) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            events.put((self, json.loads(line)))
        events.put((self, None))


def _environment(threads: int) -> dict[str, str]:
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": str(threads)}


def _reason(code: int) -> str:
    if code >= 0:
        return f"the worker process ended with exit code {code}"
    name = signal.Signals(-code).name
    hint = " (the system may have run out of memory)" if name == "SIGKILL" else ""
    return f"the worker process was killed by {name}{hint}"
