"""Several explanations of one kind side by side."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from normkit.explanation.explanation import Explanation
from normkit.explanation.sections import WIDTH, Section, plain_lines


@dataclass(frozen=True, kw_only=True)
class SideBySide(Explanation):
    """The same questions asked of several norms, or of several placements."""

    explanations: tuple[Explanation, ...]

    @property
    def heading(self) -> str:
        """The names."""
        return self.title

    @property
    def rows(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Each question with its answers, in the order of the explanations."""
        answers = [explanation.summary() for explanation in self.explanations]
        return tuple((question, tuple(one[question] for one in answers)) for question in answers[0])

    def sections(self) -> Iterator[Section]:
        """One section: a table, its cells wrapped so that it fits the page."""
        names = tuple(one.title for one in self.explanations)
        first = max(len(question) for question, _ in self.rows)
        each = max(12, (WIDTH - 2 - first) // len(names) - 2)
        lines: list[str] = []
        for question, answers in (("", names), *self.rows):
            cells = [_wrapped(answer, each) for answer in answers]
            for row in range(max(map(len, cells))):
                parts = [question if row == 0 else ""]
                parts += [cell[row] if row < len(cell) else "" for cell in cells]
                widths = [first, *[each] * len(names)]
                padded = (part.ljust(width) for part, width in zip(parts, widths, strict=True))
                lines.append("  ".join(padded).rstrip())
            lines.append("")
        yield Section(title="side by side", lines=plain_lines(lines[:-1]))

    def summary(self) -> dict[str, str]:
        """Each question with all answers in one text."""
        return {
            question: " | ".join(answers).replace("\n", "; ") for question, answers in self.rows
        }

    def data(self) -> dict[str, Any]:
        """The explanations, and the table."""
        names = [one.name for one in self.explanations]
        return {
            "kind": "side by side",
            "rows": [
                {"question": question, **dict(zip(names, answers, strict=True))}
                for question, answers in self.rows
            ],
            "explanations": [one.data() for one in self.explanations],
        }

    def drawings(self) -> list[dict[str, Any]]:
        """All pictures, each under its name."""
        found = []
        for one in self.explanations:
            for drawing in one.drawings():
                found.append({**drawing, "title": f"{one.title}: {drawing['title']}"})
        return found


def _wrapped(text: str, width: int) -> list[str]:
    """Lines of a cell; a line of a formula goes on further in."""
    parts = text.split("\n")
    further = "  " if len(parts) > 1 else ""
    return [
        line for part in parts for line in textwrap.wrap(part, width, subsequent_indent=further)
    ]
