"""What a run of the benchmark found, as records that become JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from normkit.benchmark.accuracy import ErrorRow
from normkit.errors import DataError, sentence
from normkit.measure.time_load import Load
from normkit.measure.time_ratio import Ratio

FORMAT = "normkit-bench-1"


@dataclass(frozen=True, kw_only=True)
class TimeRow:
    """One implementation in one op, mode, dtype, shape and number of threads.

    Attributes:
        time_us_p20, time_us_p50, time_us_p80: of one call, over ``rounds`` rounds.
        moved_bytes: what has to cross between memory and processor, see
            :func:`normkit.benchmark.moved_bytes`.
        limit_us: what a copy of x needs for so many bytes, in the same rounds; None where
            arithmetic is the limit.
        fraction_of_limit: ``limit / time``, the median of the rounds.
        to_torch: how many times faster than torch this is; None where torch did not run.
        ours: how many times faster normkit is than this.
        saved_bytes: what autograd keeps for the backward pass, parameters aside; None where the
            mode has none.
    """

    op: str
    implementation: str
    mode: str
    dtype: str
    shape: str
    threads: int
    device: str
    rounds: int
    time_us_p20: float
    time_us_p50: float
    time_us_p80: float
    moved_bytes: int
    limit_us: float | None
    fraction_of_limit: float | None
    to_torch: Ratio | None
    ours: Ratio | None
    saved_bytes: int | None


@dataclass(frozen=True, kw_only=True)
class Report:
    """A whole run.

    Attributes:
        date: of its start, ISO.
        machine: names and values that describe it.
        versions: of every package that took part.
        load: what else the machine did.
        missing: peers that are not installed, a sentence each.
        refused: what an implementation could not do, a sentence each.
    """

    date: str
    machine: dict[str, str]
    versions: dict[str, str]
    load: Load
    times: Sequence[TimeRow]
    errors: Sequence[ErrorRow]
    missing: Sequence[str]
    refused: Sequence[str]

    def record(self) -> dict[str, Any]:
        """Plain values for JSON: a number that is not finite is None."""
        found = asdict(self)
        found["load"]["signs"] = self.load.signs
        plain: dict[str, Any] = _plain({"format": FORMAT, **found})
        return plain


def write(report: Report, file: Path) -> None:
    """Write a report as JSON."""
    text = json.dumps(report.record(), indent=1, allow_nan=False)
    file.write_text(text + "\n", encoding="utf-8")


def read(file: Path) -> dict[str, Any]:
    """Read the record of a report back.

    Raises:
        DataError: the file is not a report.
    """
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        found = None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        rule = "the file must be what normkit bench --json wrote"
        raise DataError(sentence("bench", rule, f"{file.name!r} is not"))
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float):
        return float(f"{value:.5g}") if math.isfinite(value) else None
    return value
