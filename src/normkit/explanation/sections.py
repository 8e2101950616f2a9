"""What an explanation is written in: titled sections of facts, and of lines kept as they are."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

WIDTH = 80
_INDENT = 2
_LONGEST_NAME = 16

Fact = tuple[str, str]


@dataclass(frozen=True)
class Piece:
    """Words of a line; ``group`` numbers the statistic that they belong to, for a colour."""

    text: str
    group: int | None = None


Line = tuple[Piece, ...]


@dataclass(frozen=True, kw_only=True)
class Section:
    """A title, facts as names and sentences, then lines that must not be wrapped."""

    title: str
    facts: tuple[Fact, ...] = ()
    lines: tuple[Line, ...] = ()


def plain_lines(texts: Iterable[str]) -> tuple[Line, ...]:
    """Turn texts into lines of one piece.

    Example:
        >>> plain_lines(["y = x"])
        ((Piece(text='y = x', group=None),),)
    """
    return tuple((Piece(text),) for text in texts)


def name_width(facts: Sequence[Fact]) -> int:
    """Columns for the names of facts."""
    return min(_LONGEST_NAME, max((len(name) for name, _ in facts), default=0))


def write(heading: str, sections: Iterable[Section], *, width: int = WIDTH) -> str:
    """Write sections as plain text, facts wrapped to ``width``.

    Example:
        >>> print(write("LayerNorm", [Section(title="cost", facts=(("forward", "2 N"),))]))
        LayerNorm
        <BLANKLINE>
        cost
          forward  2 N
    """
    parts = [row for line in heading.splitlines() for row in textwrap.wrap(line, width)]
    for section in sections:
        parts += ["", section.title]
        names = name_width(section.facts)
        for name, text in section.facts:
            parts += _wrapped(f"{name.ljust(names)}  " if names else "", text, width)
        for line in section.lines:
            parts.append((" " * _INDENT + "".join(piece.text for piece in line)).rstrip())
    return "\n".join(parts)


def _wrapped(name: str, text: str, width: int) -> list[str]:
    start = f"{' ' * _INDENT}{name}"
    return textwrap.wrap(text, width, initial_indent=start, subsequent_indent=" " * len(start)) or [
        start.rstrip()
    ]


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Align the cells of rows: the first column to the left, the others to the right.

    Example:
        >>> columns([["", "mean"], ["'a'", "1.5"]])
        ['     mean', "'a'   1.5"]
    """
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
