"""The command: ``python -m tests.mutants [--third] [--only ID] [--list] [--jobs N]``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.mutants.catalogue import MUTANTS
from tests.mutants.draw import commit, named, third
from tests.mutants.mutant import Mutant, PatchError, misfits
from tests.mutants.runner import HarnessError, Outcome, Project

ROOT = Path(__file__).parents[2]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for; 0 where every bug was killed, 1 otherwise, 2 for a bad call."""
    options = _parser().parse_args(arguments)
    try:
        mutants = _chosen(options)
    except ValueError as error:
        print(f"mutants: {error}.", file=sys.stderr)
        return 2
    if options.list:
        print(_table([(m.id, m.family, m.file, " ".join(m.tests)) for m in mutants]))
        return 0
    try:
        with Project.frozen(ROOT) as project:
            return _run(mutants, project, options.jobs)
    except (PatchError, HarnessError) as error:
        print(f"mutants: {error}.", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants",
        description="Plant known bugs one by one and count how many the tests kill.",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--third", action="store_true", help="a third, drawn by the commit hash")
    which.add_argument("--only", action="append", metavar="ID", help="this bug; may be repeated")
    parser.add_argument("--seed", metavar="TEXT", help="draw the third by TEXT instead")
    parser.add_argument("--list", action="store_true", help="show the bugs, plant none")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="how many at a time")
    return parser


def _chosen(options: argparse.Namespace) -> list[Mutant]:
    if options.jobs < 1:
        raise ValueError(f"--jobs must be at least 1; it is {options.jobs}")
    if options.seed is not None and not options.third:
        raise ValueError("--seed draws a third; type --third --seed TEXT")
    if options.only:
        return named(MUTANTS, options.only)
    if options.third:
        return third(MUTANTS, options.seed if options.seed is not None else commit(ROOT))
    return list(MUTANTS)


def _run(mutants: list[Mutant], project: Project, jobs: int) -> int:
    problems = misfits(mutants, project.package)
    if problems:
        print("\n".join(problems), file=sys.stderr)
        return 1
    for clean in project.baselines(mutants):
        if clean.verdict != "survived":
            print(f"mutants: the tests fail without any bug: {clean.why}.", file=sys.stderr)
            return 1
    outcomes = []
    width = max(len(mutant.id) for mutant in mutants)
    for outcome in project.run_all(mutants, jobs):
        print(_line(outcome, width), flush=True)
        outcomes.append(outcome)
    print(summary(outcomes))
    return 0 if all(outcome.verdict == "killed" for outcome in outcomes) else 1


def _line(outcome: Outcome, width: int) -> str:
    return f"{outcome.id:<{width}}  {outcome.verdict:<8}  {outcome.seconds:5.1f} s  {outcome.why}"


def summary(outcomes: Sequence[Outcome]) -> str:
    """Count the killed and name the others."""
    lines = []
    for verdict in ("survived", "broken"):
        ids = [outcome.id for outcome in outcomes if outcome.verdict == verdict]
        lines += [f"{verdict}: {', '.join(ids)}"] if ids else []
    killed = sum(outcome.verdict == "killed" for outcome in outcomes)
    return "\n".join([*lines, f"killed {killed}/{len(outcomes)}"])


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
