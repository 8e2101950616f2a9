"""``normkit compare``: train the same model with each norm and placement, and judge claims."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from normkit.cli.guard import INTERRUPTED, guarded

if TYPE_CHECKING:
    from normkit.lab import Comparison

RUN_FAILED = 1


def register(app: typer.Typer) -> None:
    """Add the verb to the application."""
    app.command(name="compare")(guarded(compare))


def compare(
    recipe: Annotated[
        str | None,
        typer.Option(help="A ready experiment; --list shows them.", metavar="NAME"),
    ] = None,
    text: Annotated[
        Path | None,
        typer.Option(help="A UTF-8 file to train on. Default: Python's own help topics."),
    ] = None,
    norm: Annotated[
        str | None, typer.Option(help="Norms, with commas between.", metavar="A,B")
    ] = None,
    placement: Annotated[
        str | None, typer.Option(help="Placements, with commas between.", metavar="A,B")
    ] = None,
    depth: Annotated[
        str | None, typer.Option(help="Numbers of layers, such as 2,12.", metavar="N,M")
    ] = None,
    batch_size: Annotated[
        str | None, typer.Option(help="Batch sizes, such as 32,4,2.", metavar="N,M")
    ] = None,
    lr: Annotated[
        str | None, typer.Option(help="Learning rates, such as 1e-3,3e-3.", metavar="A,B")
    ] = None,
    dtype: Annotated[
        str | None, typer.Option(help="float32, bfloat16 (autocast), float64.", metavar="A,B")
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="Number of seeds.", metavar="N")] = None,
    steps: Annotated[int | None, typer.Option(help="Updates of each run.", metavar="N")] = None,
    accumulate: Annotated[
        int | None,
        typer.Option(help="Cut each batch into N pieces for one update.", metavar="N"),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(help="Runs side by side. Default: one per CPU core.", metavar="N"),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="A new folder. Default: the next free one under runs/."),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on in --out: finished runs stay. --seeds may grow."),
    ] = False,
    show_recipes: Annotated[
        bool, typer.Option("--list", help="Show the recipes and exit.")
    ] = False,
) -> None:
    """Train a language model with every norm and placement asked for, and judge which is best.

    Prints the verdicts first and writes a page, pictures and all records to --out.
    """
    from normkit import lab  # not before it is needed: --help stays quick

    if show_recipes:
        _list_recipes()
        return
    try:
        found = lab.compare(
            recipe=recipe,
            text=text,
            norm=norm,
            placement=placement,
            depth=depth,
            batch_size=batch_size,
            lr=lr,
            dtype=dtype,
            seeds=seeds,
            steps=steps,
            accumulate=accumulate,
            jobs=jobs,
            out=out,
            resume=resume,
        )
    except KeyboardInterrupt:  # how to go on has been said
        raise typer.Exit(INTERRUPTED) from None
    _show(found)


def _show(found: Comparison) -> None:
    from normkit.lab.report import WIDTH, render

    # A pipe has no width of its own, and a table wants more than rich's 80 columns.
    console = Console()
    console = console if console.is_terminal else Console(width=WIDTH)
    console.print(render(found))
    if found.failed:
        raise typer.Exit(RUN_FAILED)


def _list_recipes() -> None:
    from normkit.lab import RECIPES

    for recipe in RECIPES.values():
        typer.echo(f"{recipe.name:<10} {recipe.question}")
