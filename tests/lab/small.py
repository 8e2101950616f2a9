"""Runs so small that a test can train them."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path
from typing import Any

from normkit.lab.config import ModelSpec, RunConfig, TrainingSpec
from normkit.lab.judge import RunSummary
from normkit.lab.task import TaskSpec, TextTask
from normkit.lab.text import Text

WORDS = ("norm", "scale", "mean", "shift", "token", "layer", "root", "square", "gain", "bias")
MODEL = ModelSpec(width=8, heads=2)
TRAINING = TrainingSpec(steps=6, interval=2, clip_norm=1.0)


def text(lines: int = 120) -> Text:
    """Lines of words, of varying length, always the same."""
    draw = random.Random(0)
    rows = (" ".join(draw.choices(WORDS, k=draw.randint(1, 6))) for _ in range(lines))
    return Text(name="words", path=None, characters="\n".join(rows))


def config(**changes: Any) -> RunConfig:
    """A run of six steps on :func:`text`."""
    values: dict[str, Any] = {"norm": "layer_norm", "placement": "pre", "depth": 1, "batch_size": 4}
    shape = changes.pop("shape", "windows")
    task = TaskSpec(shape=shape, length=8, validation_sequences=6, text_sha256=text().sha256)
    training = dataclasses.replace(TRAINING, **changes.pop("training", {}))
    model = dataclasses.replace(MODEL, **changes.pop("model", {}))
    return RunConfig(task=task, training=training, model=model, **{**values, **changes})


def task(of: RunConfig) -> TextTask:
    """The task of a run."""
    return TextTask(text(), of.task)


def write_text(folder: Path) -> Path:
    """The text as a file."""
    path = folder / "words.txt"
    path.write_text(text().characters, encoding="utf-8")
    return path


def summary(value: float, *, measure: str = "validation_loss", **changes: Any) -> RunSummary:
    """A run that ended with one measure."""
    return RunSummary(config(**changes), "finished", 6, {measure: value})


def ignore(*_: object) -> None:
    """A report that nobody reads."""
