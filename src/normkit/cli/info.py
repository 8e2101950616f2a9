"""``normkit info``: versions, devices, threads, CPU features, and which path each op takes here."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from normkit.cli.guard import guarded
from normkit.cli.machine import Fact, machine_facts
from normkit.ops import PathRow, describe_paths


def register(app: typer.Typer) -> None:
    """Add the verb to the application."""
    app.command(name="info")(guarded(info))


def info(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Show versions, devices, threads, CPU features, and which path each op takes here and why."""
    facts, paths = machine_facts(), describe_paths()
    if as_json:
        rows = {"facts": [asdict(fact) for fact in facts], "paths": [asdict(row) for row in paths]}
        print(json.dumps(rows, indent=2))
    else:
        # The values are data: a bracket in one of them is no markup.
        console = Console(markup=False, emoji=False)
        console.print(_facts_table(facts), "", _paths_table(paths), sep="\n")


def _facts_table(facts: list[Fact]) -> Table:
    table = Table("", "", "", box=None, show_header=False, pad_edge=False)
    table.columns[0].style, table.columns[1].style = "bold", "cyan"
    table.columns[2].overflow = "fold"  # a path is one long word, wanted whole
    previous = ""
    for fact in facts:
        starts = fact.group != previous
        if starts and previous:
            table.add_row()
        table.add_row(fact.group if starts else "", fact.name, fact.value)
        previous = fact.group
    return table


def _paths_table(paths: list[PathRow]) -> Table:
    title = "Which path each op takes here, and why"
    table = Table("op", "when", "path", "why", title=title, title_justify="left")
    previous = ""
    for row in paths:
        if row.op != previous and previous:
            table.add_section()
        table.add_row(row.op if row.op != previous else "", row.situation, row.path, row.reason)
        previous = row.op
    return table
