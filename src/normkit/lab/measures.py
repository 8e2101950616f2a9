"""What a run is worth: its records, summed up as a few named numbers."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

LOSS_UNIT = "nats/character"


@dataclass(frozen=True)
class Measure:
    """A named number of a run; ``short`` is its heading in a narrow table."""

    title: str
    short: str
    unit: str


MEASURES: Mapping[str, Measure] = {
    "training_loss": Measure("final training loss", "train", LOSS_UNIT),
    "validation_loss": Measure("final validation loss", "valid", LOSS_UNIT),
    "validation_batch_loss": Measure(
        "final validation loss with batch statistics", "valid (batch)", LOSS_UNIT
    ),
    "step_spread": Measure("step-to-step spread of the training loss", "spread", LOSS_UNIT),
    "tokens_per_s": Measure("speed", "tokens/s", "tokens/s"),
}


def measure(rows: Iterable[Mapping[str, Any]], *, tail: int) -> dict[str, float]:
    """Compute every measure that the records of one finished run allow.

    =====================  ====================================================================
    training_loss          mean over the last ``tail`` steps
    validation_loss        at the last step; running statistics where the norm has them
    validation_batch_loss  the same with batch statistics; only for norms that have both
    step_spread            standard deviation of the change from one step to the next, over the
                           second half of the run
    tokens_per_s           median over the intervals
    =====================  ====================================================================

    Example:
        >>> train = {"metric": "loss", "split": "train"}
        >>> rows = [{**train, "value": value} for value in (4.0, 3.0, 2.0, 1.0)]
        >>> measure(rows, tail=2)["training_loss"]
        1.5
    """
    series: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        if row["value"] is not None:
            series.setdefault((row["metric"], row["split"]), []).append(row["value"])
    found: dict[str, float] = {}
    losses = series.get(("loss", "train"), [])
    if losses:
        found["training_loss"] = statistics.fmean(losses[-tail:])
        found["step_spread"] = step_spread(losses)
    for name, split in _LAST.items():
        if ("loss", split) in series:
            found[name] = series["loss", split][-1]
    if ("tokens_per_s", "train") in series:
        found["tokens_per_s"] = statistics.median(series["tokens_per_s", "train"])
    return found


_LAST = {
    "validation_loss": "validation",
    "validation_batch_loss": "validation_batch_statistics",
}


def diverged(found: Mapping[str, float], vocabulary: int) -> dict[str, float]:
    """Replace the losses of a run that diverged by ln V, the loss of a uniform guess.

    That is what such a model is worth: anyone can guess at random. Its spread is left out.

    Example:
        >>> round(diverged({"validation_loss": 1.0}, 100)["validation_loss"], 3)
        4.605
    """
    losses = ("training_loss", "validation_loss", "validation_batch_loss")
    uniform = dict.fromkeys(losses, math.log(vocabulary))
    return {name: value for name, value in found.items() if name == "tokens_per_s"} | uniform


def step_spread(losses: list[float]) -> float:
    """Standard deviation of the change of the loss from one step to the next, second half.

    Example:
        >>> step_spread([3.0, 3.0, 1.0, 2.0, 1.0, 2.0])
        1.0
    """
    half = losses[len(losses) // 2 :]
    changes = [after - before for before, after in itertools.pairwise(half)]
    return statistics.pstdev(changes) if changes else 0.0
