"""``normkit explain``: what a norm or a placement does, on a shape or at a depth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from normkit.cli.guard import guarded
from normkit.errors import OptionError, sentence

if TYPE_CHECKING:
    from normkit.explanation import Explanation, SideBySide
    from normkit.explanation.sections import Line, Section

# Backgrounds of cells and the ink on them; the colours are those of pages.style, whose import costs
# more than everything else here.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
INKS = ("white", "white", "white", "black", "black", "black")
_ASCII = str.maketrans("─│┬└┘", "-|+++")


def register(app: typer.Typer) -> None:
    """Add the verb to the application."""
    app.command(name="explain")(guarded(explain))


def explain(
    names: Annotated[
        list[str],
        typer.Argument(
            help="Norms or placements; several are put side by side.", metavar="NAME..."
        ),
    ],
    shape: Annotated[
        str | None, typer.Option(help="Shape of x, such as 4,2,3 (norms).", metavar="N,M")
    ] = None,
    normalized_shape: Annotated[
        str | None,
        typer.Option(help="Last axes that share statistics (LayerNorm, RMSNorm).", metavar="N,M"),
    ] = None,
    groups: Annotated[
        int | None, typer.Option(help="Groups of channels (GroupNorm).", metavar="N")
    ] = None,
    channel_axis: Annotated[
        int | None, typer.Option(help="Where channels stand; -1 for tokens.", metavar="N")
    ] = None,
    depth: Annotated[
        int | None, typer.Option(help="Layers (placements). Default: 12.", metavar="N")
    ] = None,
    svg: Annotated[
        Path | None, typer.Option(help="Write the picture to this file too.", metavar="FILE")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Explain a norm or a placement: formula, axes, statistics, cost, behaviour, a picture."""
    from normkit.explanation import SideBySide
    from normkit.explanation import explain as explain_names

    explained = explain_names(
        *names,
        shape=_sizes("--shape", shape),
        normalized_shape=_sizes("--normalized-shape", normalized_shape),
        groups=groups,
        channel_axis=channel_axis,
        depth=depth,
    )
    if svg is not None:
        svg.write_text(explained.svg(), encoding="utf-8")
    if as_json:
        print(json.dumps(explained.data(), indent=2))
        return
    console = Console(markup=False, emoji=False, highlight=False)
    if isinstance(explained, SideBySide):
        _show_table(console, explained)
    else:
        _show(console, explained)


def _sizes(option: str, text: str | None) -> tuple[int, ...] | None:
    """Read ``4,2,3``; spaces, x and brackets are welcome."""
    if text is None:
        return None
    words = text.strip(" ()[]").replace("x", ",").split(",")
    try:
        return tuple(int(word) for word in words if word.strip())
    except ValueError:
        rule = f"{option} must be integers with commas between"
        raise OptionError(
            sentence("explain", rule, f"it is {text!r}", f"Try {option} 4,2,3")
        ) from None


def _show(console: Console, explained: Explanation) -> None:
    first, _, rest = explained.heading.partition("\n")
    console.print(Text(first, style="bold"))
    console.print(rest)
    for section in explained.sections():
        console.print()
        console.print(Text(section.title, style="bold cyan"))
        _show_section(console, section)


def _show_section(console: Console, section: Section) -> None:
    if not any(name for name, _ in section.facts):
        for _, text in section.facts:
            console.print(Padding(text, (0, 0, 0, 2)))
    elif section.facts:
        table = Table(box=None, show_header=False, pad_edge=False)
        table.add_column(style="bold", no_wrap=True)
        table.add_column()
        for name, text in section.facts:
            table.add_row(name, text)
        console.print(Padding(table, (0, 0, 0, 2)))
    plain = not console.encoding.lower().startswith("utf")
    for line in section.lines:
        console.print(_text(line, plain=plain), soft_wrap=True)


def _text(line: Line, *, plain: bool) -> Text:
    found = Text("  ")
    for piece in line:
        hue = None if piece.group is None else piece.group % len(COLOURS)
        style = "" if hue is None else f"bold {INKS[hue]} on {COLOURS[hue]}"
        found.append(piece.text.translate(_ASCII) if plain else piece.text, style)
    return found


def _show_table(console: Console, explained: SideBySide) -> None:
    table = Table("", *(one.title for one in explained.explanations), show_lines=True)
    table.columns[0].style = "bold"
    for question, answers in explained.rows:
        table.add_row(question, *answers)
    console.print(table)
