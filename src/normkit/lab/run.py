"""One run from where it stands to its end: records, checkpoints, divergence."""

from __future__ import annotations

import io
import math
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import normkit
from normkit.lab import records
from normkit.lab.config import RunConfig
from normkit.lab.folder import write_aside, write_json
from normkit.lab.records import Record
from normkit.lab.task import TextTask
from normkit.lab.train import Trainer

REPORT_EVERY_S = 0.5
EXPLODED = 10.0  # times the loss of a uniform guess, ln V

# Called with (step, loss, tokens_per_s) about twice a second.
Report = Callable[[int, float, float], None]


@dataclass
class _Interval:
    """What was measured since the last checkpoint, still as tensors."""

    first_step: int
    first_tokens: int
    losses: list[Tensor] = field(default_factory=list)
    norms: list[Tensor] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    seconds: float = 0.0


def run(config: RunConfig, task: TextTask, folder: Path, report: Report) -> dict[str, Any]:
    """Train to the end, from the last checkpoint in ``folder`` if there is one.

    Args:
        config: what to train.
        task: its task.
        folder: where config, records, checkpoint and, at the end, ``result.json`` are written.
        report: told about twice a second how far it is.

    Returns:
        The content of ``result.json``: ``status`` is ``finished``, or ``diverged`` when a loss, in
        training or validation, is not finite, or the mean training loss of an interval is over
        10 ln V; ``step`` is where that was.
    """
    going = Run(config, task, folder, report)
    while True:
        result = going.advance()
        if result is not None:
            return result


class Run:
    """A run where it stands on disk; see :func:`run` for the arguments."""

    def __init__(self, config: RunConfig, task: TextTask, folder: Path, report: Report) -> None:
        """Go back to the last checkpoint, or start."""
        self.config, self.folder, self.report = config, folder, report
        self.trainer = Trainer(config, task)
        self.limit = EXPLODED * math.log(task.vocabulary)
        self.seconds = 0.0
        self._reported = time.perf_counter()
        folder.mkdir(parents=True, exist_ok=True)
        write_aside(folder / "config.json", config.to_json().encode())
        self._restore()

    def advance(self) -> dict[str, Any] | None:
        """Train one interval, evaluate, write; return the result once there is nothing to train."""
        if self.trainer.step >= self.config.training.steps:
            return self._finish("finished", self.trainer.step)
        interval = self._train_interval()
        losses: list[float] = torch.stack(interval.losses).tolist()
        bad = _first_bad(losses, self.limit)
        evaluated = self.trainer.evaluate() if bad is None else {}
        if not all(map(math.isfinite, evaluated.values())):
            bad = len(losses) - 1  # its update is what broke the model
        if bad is not None:
            self._write_records(interval, losses[: bad + 1], evaluated)
            return self._finish("diverged", interval.first_step + bad + 1)
        self._save(interval, losses, evaluated)
        return None

    def _train_interval(self) -> _Interval:
        trainer, training = self.trainer, self.config.training
        stop = min(training.steps, (trainer.step // training.interval + 1) * training.interval)
        interval = _Interval(trainer.step, trainer.tokens)
        start = time.perf_counter()
        while trainer.step < stop:
            loss, norm = trainer.update()
            interval.losses.append(loss)
            interval.tokens.append(trainer.tokens)
            if norm is not None:
                interval.norms.append(norm)
            now = time.perf_counter()
            if now - self._reported > REPORT_EVERY_S:
                self._reported = now
                rate = (trainer.tokens - interval.first_tokens) / (now - start)
                self.report(trainer.step, loss.item(), rate)
        interval.seconds = time.perf_counter() - start
        self.seconds += interval.seconds
        return interval

    def _write_records(
        self, interval: _Interval, losses: list[float], evaluated: dict[str, float]
    ) -> int:
        """Append one row per step and metric, then the evaluation; return the file's size."""
        rows = []
        norms = torch.stack(interval.norms).tolist() if interval.norms else []
        for metric, values in (("loss", losses), ("gradient_norm", norms[: len(losses)])):
            for index, value in enumerate(values):
                step, tokens = interval.first_step + index + 1, interval.tokens[index]
                rows.append(self._record(step, tokens, metric, "train", value))
        step, tokens = interval.first_step + len(losses), interval.tokens[len(losses) - 1]
        for split, loss in evaluated.items():
            rows.append(self._record(step, tokens, "loss", split, loss))
        rate = (interval.tokens[-1] - interval.first_tokens) / interval.seconds
        rows.append(self._record(step, tokens, "tokens_per_s", "train", rate))
        return records.append(self.folder / "records.jsonl", rows)

    def _record(self, step: int, tokens: int, metric: str, split: str, value: float) -> Record:
        return Record(self.config.id, step, tokens, metric, split, value)

    def _save(self, interval: _Interval, losses: list[float], evaluated: dict[str, float]) -> None:
        """Records first, checkpoint second: a checkpoint never knows more than the records."""
        start = time.perf_counter()
        size = self._write_records(interval, losses, evaluated)
        self.seconds += time.perf_counter() - start
        state = {**self.trainer.state_dict(), "records_bytes": size, "seconds": self.seconds}
        buffer = io.BytesIO()
        torch.save(state, buffer)
        write_aside(self.folder / "checkpoint.pt", buffer.getvalue())

    def _restore(self) -> None:
        """Go back to the last checkpoint, and cut off the records that came after it."""
        checkpoint = self.folder / "checkpoint.pt"
        size = 0
        if checkpoint.exists():
            state = torch.load(checkpoint, weights_only=True)
            size, self.seconds = state.pop("records_bytes"), state.pop("seconds")
            self.trainer.load_state_dict(state)
        records.truncate(self.folder / "records.jsonl", size)

    def _finish(self, status: str, step: int) -> dict[str, Any]:
        tokens, seconds = self.trainer.tokens, self.seconds
        result = {
            "run": self.config.id,
            "status": status,
            "step": step,
            "tokens": tokens,
            "seconds": seconds,
            "tokens_per_s": tokens / seconds,
            "versions": versions(),
            "records_bytes": (self.folder / "records.jsonl").stat().st_size,
        }
        write_json(self.folder / "result.json", result)
        return result


def versions() -> dict[str, str | int]:
    """What the numbers were measured with."""
    return {
        "normkit": normkit.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "threads": torch.get_num_threads(),
    }


def _first_bad(losses: list[float], limit: float) -> int | None:
    """Index of the first loss that is not finite, or over the limit in an interval that is."""
    exploded = math.fsum(loss for loss in losses if math.isfinite(loss)) > limit * len(losses)
    for index, loss in enumerate(losses):
        if not math.isfinite(loss) or (exploded and loss > limit):
            return index
    return None
