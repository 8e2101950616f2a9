"""Long-form records of a run, one JSON object a line, appended as the run goes."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from normkit.lab.folder import write_aside

UNITS = {"loss": "nats/character", "gradient_norm": "", "tokens_per_s": "tokens/s"}


@dataclass(frozen=True)
class Record:
    """One measured number.

    Attributes:
        run: id of the run.
        step: updates made when it was measured; a training loss is that of the step's own batch.
        tokens: characters trained on until then; pads are not counted.
        metric: ``loss``, ``gradient_norm`` or ``tokens_per_s``.
        split: ``train``; ``validation`` (running statistics, where the norm has them);
            ``validation_batch_statistics``.
        value: the number; not finite is written as null.
    """

    run: str
    step: int
    tokens: int
    metric: str
    split: str
    value: float

    def to_json(self) -> str:
        """One line of ``records.jsonl``."""
        row: dict[str, Any] = {
            "run": self.run,
            "step": self.step,
            "tokens": self.tokens,
            "metric": self.metric,
            "split": self.split,
            "unit": UNITS[self.metric],
            "value": self.value if math.isfinite(self.value) else None,
        }
        return json.dumps(row)


def append(path: Path, records: Iterable[Record]) -> int:
    """Add records to the end of the file and return its size in bytes."""
    text = "".join(record.to_json() + "\n" for record in records)
    with path.open("a", encoding="utf-8", newline="\n") as file:
        file.write(text)
    return path.stat().st_size


def truncate(path: Path, size_bytes: int) -> None:
    """Cut the file back to what it was when the checkpoint was written."""
    if size_bytes == 0:
        write_aside(path, b"")
    else:
        with path.open("r+b") as file:
            file.truncate(size_bytes)


def read(path: Path) -> list[dict[str, Any]]:
    """All rows of a file; a last line that a kill cut short is left out."""
    lines = path.read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines[:-1]]
