"""Write the measured parts of docs/performance.md from the records in docs/measurements.

    python tools/performance.py

A part stands between two comments, `<!-- measured: NAME -->` and `<!-- end -->`, and comes from
docs/measurements/NAME.json, which `normkit bench --json` wrote; a record that is not there leaves
a sentence. `make docs` runs this.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from normkit.benchmark import TARGETS, read
from normkit.benchmark.targets import measured
from normkit.cli.bench_table import errors_summary, faster, number, origin_words, ratio

DOCS = Path(__file__).parents[1] / "docs"
PAGE, RECORDS = DOCS / "performance.md", DOCS / "measurements"
PART = re.compile(r"(<!-- measured: ([a-z-]+) ([a-z]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
MISSING = "Not measured yet.\n"
Record = Mapping[str, Any]


def page(text: str) -> str:
    """The page with every measured part as its record says."""
    return PART.sub(lambda found: f"{found[1]}{part(found[2], found[3])}{found[5]}", text)


def part(name: str, kind: str) -> str:
    """One part: the ``times``, ``errors`` or ``targets`` of a record."""
    file = RECORDS / f"{name}.json"
    if not file.is_file():
        return MISSING
    record = read(file)
    return "\n".join([_origin(record), "", *KINDS[kind](record), ""])


def _origin(record: Record) -> str:
    signs = record["load"]["signs"]
    loaded = f" The machine was loaded: {'; '.join(signs)}." if signs else ""
    return f"Measured on {record['date'][:10]} ({origin_words(record)}).{loaded}"


def _times(record: Record) -> Iterator[str]:
    yield "| what | by whom | time us | limit us | of limit | vs torch | normkit is | saved MiB |"
    yield "|---|---|---|---|---|---|---|---|"
    for row in record["times"]:
        words = f"{row['op']} {row['mode']} {row['dtype']} {row['shape']}, {row['threads']} threads"
        fraction, saved = row["fraction_of_limit"], row["saved_bytes"]
        cells = (
            words.replace(", 1 threads", ", 1 thread"),
            row["implementation"],
            number(row["time_us_p50"]),
            "" if row["limit_us"] is None else number(row["limit_us"]),
            "" if fraction is None else f"{fraction:.2f}",
            ratio(row["to_torch"]),
            faster(row["ours"]),
            "" if saved is None else f"{saved / 2**20:.1f}",
        )
        yield f"| {' | '.join(cells)} |"


def _errors(record: Record) -> Iterator[str]:
    yield "| what | by whom | unit: outputs | gradients | worst | where | NaN or Inf |"
    yield "|---|---|---|---|---|---|---|"
    for cells in errors_summary(record["errors"]):
        yield f"| {' | '.join(cells)} |"


def _targets(record: Record) -> Iterator[str]:
    yield "| target | here | floor | goal |"
    yield "|---|---|---|---|"
    for target in TARGETS:
        found = measured(target, record["times"])
        here = "" if found is None else f"{found:.2f}"
        yield f"| {target.words} | {here} | {target.floor} | {target.goal} |"


KINDS = {"times": _times, "errors": _errors, "targets": _targets}


def main() -> None:
    """Write the page where it has changed."""
    before = PAGE.read_text(encoding="utf-8")
    after = page(before)
    if after != before:
        PAGE.write_text(after, encoding="utf-8")
        print("docs/performance.md has changed")


if __name__ == "__main__":
    main()
