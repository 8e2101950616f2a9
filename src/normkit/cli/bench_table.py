"""The benchmark in the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from normkit.benchmark import TARGETS, ModelReport
from normkit.benchmark.model_share import Half
from normkit.benchmark.targets import measured
from normkit.measure.time import Timing

Row = Mapping[str, Any]
SPEAKING = ("processor", "instructions", "system")  # facts whose values say what they are
HEADINGS = ("time us (p20 p80)", "limit us", "of limit", "vs torch", "normkit is", "saved MiB")


def render(record: Row, *, targets: bool) -> RenderableType:
    """Everything that a run found."""
    parts: list[RenderableType] = [times_table(record["times"]), Text()]
    if record["errors"]:
        parts += [errors_table(record["errors"]), Text()]
    if targets:
        parts += [targets_table(record["times"]), Text()]
    parts += [Text(f"{text}.") for text in (*record["missing"], *record["refused"])]
    if record["load"]["signs"]:
        text = f"The machine was loaded: {'; '.join(record['load']['signs'])}."
        parts.append(Text(f"{text} Run again when it is idle.", style="bold yellow"))
    parts.append(Text(_footer(record)))
    return Group(*parts)


def times_table(rows: Sequence[Row]) -> Table:
    """A block for each op, mode, dtype, shape and number of threads."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("what, and by whom", no_wrap=True)
    for heading in HEADINGS:
        table.add_column(heading, justify="right")
    previous: tuple[Any, ...] = ()
    for row in rows:
        key = tuple(row[name] for name in ("op", "mode", "dtype", "shape", "threads"))
        if key != previous:
            threads = f"{row['threads']} thread{'s' * (row['threads'] > 1)}"
            words = f"{row['op']} {row['mode']} {row['dtype']} {row['shape']}, {threads}"
            if previous:
                table.add_row()
            table.add_row(Text(words, style="bold"))
        previous = key
        table.add_row(f"  {row['implementation']}", *_cells(row))
    return table


def _cells(row: Row) -> list[str]:
    p20, p50, p80 = (row[f"time_us_p{part}"] for part in (20, 50, 80))
    fraction, saved = row["fraction_of_limit"], row["saved_bytes"]
    return [
        f"{number(p50)} ({number(p20)} {number(p80)})",
        "" if row["limit_us"] is None else number(row["limit_us"]),
        "" if fraction is None else f"{fraction:.2f}",
        ratio(row["to_torch"]),
        faster(row["ours"]),
        "" if saved is None else f"{saved / 2**20:.1f}",
    ]


def errors_table(rows: Sequence[Row]) -> Table:
    """For each op, dtype and implementation: at unit scale, at its worst, and NaN or Inf."""
    title = "Errors against float64, in ulps at the largest value of the row"
    table = Table(
        *("op", "implementation", "unit: outputs", "gradients", "worst", "where", "NaN or Inf"),
        box=None, pad_edge=False, header_style="bold", title=title, title_justify="left",
    )  # fmt: skip
    for column in (2, 3, 4, 6):
        table.columns[column].justify = "right"
    previous = ""
    for what, *rest in errors_summary(rows):
        table.add_row("" if what == previous else what, *rest)
        previous = what
    return table


def errors_summary(rows: Iterable[Row]) -> Iterator[tuple[str, ...]]:
    """The cells of that table, a line for each op, dtype and implementation."""
    for (op, dtype, implementation), group in _by_implementation(rows).items():
        broken = sum(row["not_finite"] for row in group)
        worst = max(group, key=_size)
        unit = [row for row in group if row["regime"] == "unit"]
        yield (
            f"{op} {dtype}",
            implementation,
            ulps(max(_size(row) for row in unit if not _is_gradient(row))),
            ulps(max((_size(row) for row in unit if _is_gradient(row)), default=None)),
            ulps(_size(worst)),
            f"{worst['value']}, {worst['regime']}",
            str(broken or ""),
        )


def targets_table(rows: Sequence[Row]) -> Table:
    """Each target with what this run measured."""
    table = Table("target", "here", "floor", "goal", "", box=None, pad_edge=False)
    for target in TARGETS:
        found = measured(target, rows)
        if found is None:
            table.add_row(target.words, "not measured", str(target.floor), str(target.goal), "")
            continue
        word = "goal" if found >= target.goal else "floor" if found >= target.floor else "BELOW"
        style = {"goal": "green", "BELOW": "bold red"}.get(word, "")
        table.add_row(
            target.words, f"{found:.2f}", str(target.floor), str(target.goal), Text(word, style)
        )
    return table


def import_lines(times: Mapping[str, Timing]) -> RenderableType:
    """What the import costs."""
    ours, torch = times["normkit"], times["torch"]
    return Text(
        f"import normkit takes {_ms(ours)} over torch, which takes {_ms(torch)} by itself "
        f"(median of {len(ours.times_us)} fresh processes; p20 to p80 in brackets)."
    )


def model_table(report: ModelReport) -> RenderableType:
    """Share of each norm in a step, before and after, and what could be gained at most."""
    table = Table("norm", "kind", box=None, pad_edge=False, header_style="bold")
    for heading in ("before us", "share", "after us", "share"):
        table.add_column(heading, justify="right")
    after = {norm.name: norm for norm in report.after.norms}
    for norm in report.before.norms:
        now = after[norm.name]
        table.add_row(
            norm.name,
            norm.kind,
            *_share(norm.forward_us + norm.backward_us, report.before),
            *_share(now.forward_us + now.backward_us, report.after),
        )
    for name, both in (
        ("all norms", [_share(half.norms_us, half) for half in (report.before, report.after)]),
        ("whole step", [(number(h.step.p50), "") for h in (report.before, report.after)]),
    ):
        table.add_row(name, "", *both[0], *both[1], style="bold")
    count = len(report.swapped)
    left = f"Left as they are: {', '.join(report.left)}." if report.left else ""
    lines = [
        f"{count} norm{'s' * (count != 1)} replaced by ours. {left}".strip(),
        f"Norms: {_times_faster(report)} of their time before. "
        f"Step: {_step_words(report)}; free norms would make it "
        f"{report.before.ceiling:.2f}x as fast at most (Amdahl).",
    ]
    return Group(table, Text(), *map(Text, lines))


def _times_faster(report: ModelReport) -> str:
    return f"{report.after.norms_us / report.before.norms_us:.2f}"


def _step_words(report: ModelReport) -> str:
    speed = report.speedup
    return f"{speed.p50:.2f}x as fast as before" if speed.differs else "no difference"


def _share(time_us: float, half: Half) -> tuple[str, str]:
    return number(time_us), f"{time_us / half.step.p50:.1%}"


def _ms(timing: Timing) -> str:
    p20, p50, p80 = (value / 1000 for value in (timing.p20, timing.p50, timing.p80))
    return f"{p50:.0f} ms ({p20:.0f} to {p80:.0f})"


def ratio(value: Row | None) -> str:
    """How many times faster than torch."""
    if value is None:
        return ""
    return f"{value['p50']:.2f}x" if value["differs"] else "no difference"


def faster(value: Row | None) -> str:
    """How normkit does beside this implementation."""
    if value is None:
        return ""
    if not value["differs"]:
        return "no difference"
    p50: float = value["p50"]
    return f"{p50:.2f}x faster" if p50 > 1 else f"{1 / p50:.2f}x slower"


def number(value: float) -> str:
    """Three digits, or all of a larger number.

    Example:
        >>> number(3.14159), number(31415.9)
        ('3.14', '31416')
    """
    return f"{value:.3g}" if value < 999.5 else f"{value:.0f}"


def ulps(value: float | None) -> str:
    """An error; large ones only as large, for what they are divided by may be next to nothing.

    Example:
        >>> ulps(0.5), ulps(3e7), ulps(float("inf"))
        ('0.50', '> 1000', 'inf')
    """
    if value is None:
        return ""
    if value > 1000:
        return "inf" if value == float("inf") else "> 1000"
    return f"{value:.2f}" if value < 9.995 else f"{value:.0f}"


def _size(row: Row) -> float:
    """A record has None for an error without end."""
    value: float | None = row["worst_ulp"]
    return float("inf") if value is None else value


def _is_gradient(row: Row) -> bool:
    return bool(row["value"].startswith("d"))


def _by_implementation(rows: Iterable[Row]) -> dict[tuple[str, str, str], list[Row]]:
    """Rows of forward + backward hold the outputs too, so they stand for both where both ran."""
    rows = list(rows)
    trained = {_where(row) for row in rows if row["mode"] == "forward_backward"}
    found: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        if row["mode"] == "forward_backward" or _where(row) not in trained:
            found.setdefault(_where(row), []).append(row)
    order = list(dict.fromkeys((row["op"], row["dtype"]) for row in rows))
    return dict(sorted(found.items(), key=lambda pair: order.index(pair[0][:2])))


def _where(row: Row) -> tuple[str, str, str]:
    return (row["op"], row["dtype"], row["implementation"])


def _footer(record: Row) -> str:
    return f"{record['date']}, {origin_words(record)}."


def origin_words(record: Row) -> str:
    """The machine and the versions that numbers belong to."""
    machine = ", ".join(
        value if name in SPEAKING else f"{name} {value}"
        for name, value in record["machine"].items()
    )
    packages = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    return f"{machine}; {packages}"
