"""The command-line application: the root options, and a verb from each file beside this one."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer
import typer.main

import normkit
from normkit.cli import bench, compare, explain, info
from normkit.cli import build as build_verb
from normkit.cli.guard import guarded

HELP = """Normalization in deep networks: exact layers, and measured answers about which one trains.

Every verb has its own --help. The same things in Python: help(normkit)."""
VERBS = (bench, build_verb, compare, explain, info)


def build() -> typer.Typer:
    """Put the application together."""
    app = typer.Typer(
        name="normkit",
        help=HELP,
        add_completion=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(root)
    for verb in VERBS:
        verb.register(app)
    return app


def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """Answer ``normkit`` with no verb."""
    if version:
        print(f"normkit {normkit.__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the application and return the exit code: a wrong call is one sentence and a 2."""
    command = typer.main.get_command(build())
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = guarded(command.main)(args=words, prog_name="normkit", standalone_mode=False)
        sys.stdout.flush()
    except typer.Exit as stop:
        return stop.exit_code
    except BrokenPipeError:  # `normkit info | head -1`: nobody reads the rest
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code if isinstance(code, int) else 0
