"""The tensor as numbered cells: elements that share a statistic carry its number."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from normkit.explanation.numbers import counted, listed
from normkit.explanation.reading import Axis, Reading
from normkit.explanation.sections import Line, Piece
from normkit.explanation.sharing import Sharing, labels
from normkit.spec import NormSpec

_FULL_ELEMENTS, _FULL_COLUMNS = 192, 16  # so much is drawn as it is
_LINE = 76


@dataclass(frozen=True, kw_only=True)
class Panel:
    """The last two axes at one index of the others; a cell is a statistic's number, or None."""

    title: str
    cells: tuple[tuple[int | None, ...], ...]


@dataclass(frozen=True, kw_only=True)
class TensorPicture:
    """A tensor, drawn.

    Attributes:
        shape: what is drawn; ``reduced`` says whether it stands for a larger tensor.
        title: which statistics these are.
        down, across: letters of the axes inside a panel.
        bands: panels in rows; along a row runs the first axis.
    """

    shape: tuple[int, ...]
    reduced: bool
    title: str
    down: str
    across: str
    bands: tuple[tuple[Panel, ...], ...]

    @property
    def caption(self) -> str:
        """What is drawn and how to read it."""
        drawn = "Drawn smaller, with the same structure: " if self.reduced else "Drawn: "
        size = " x ".join(map(str, self.shape))
        inside = f"{self.down} down, {self.across} across" if self.down else f"{self.across} across"
        return f"{drawn}{size}; in each panel {inside}."


def picture(spec: NormSpec, reading: Reading, title: str) -> TensorPicture:
    """Draw the statistics of one spec.

    Example:
        >>> from normkit.explanation.reading import Options, read
        >>> from normkit.spec import norm_entry
        >>> entry = norm_entry("batch_norm")
        >>> drawn = picture(entry.spec, read(entry, Options(shape=(2, 3))), "")
        >>> drawn.bands[0][0].cells
        ((0, 1, 2), (0, 1, 2))
    """
    small = reduced(reading)
    numbers = labels(spec, small)
    axes = small.axes
    inner = axes[-2:]
    outer = axes[: max(len(axes) - 2, 0)]
    bands = []
    for rest in itertools.product(*(range(axis.size) for axis in outer[1:])):
        panels = []
        for first in range(outer[0].size) if outer else [None]:
            index = () if first is None else (first, *rest)
            rows = numbers[index].view(-1, inner[-1].size).tolist()
            cells = [tuple(n if spec.over else None for n in row) for row in rows]
            panels.append(Panel(title=_place(outer, index), cells=tuple(cells)))
        bands.append(tuple(panels))
    return TensorPicture(
        shape=small.shape,
        reduced=small.shape != reading.shape,
        title=title,
        down=inner[0].letter if len(inner) > 1 else "",
        across=inner[-1].letter,
        bands=tuple(bands),
    )


def _place(axes: Sequence[Axis], index: tuple[int, ...]) -> str:
    return " ".join(f"{axis.letter}{i}" for axis, i in zip(axes, index, strict=True))


def reduced(reading: Reading) -> Reading:
    """A smaller reading of the same structure where the tensor is too large to draw."""
    if reading.numel <= _FULL_ELEMENTS and reading.shape[-1] <= _FULL_COLUMNS:
        return reading
    places = sum(axis.role in ("position", "space") for axis in reading.axes)
    most = {"batch": 2, "head": 2, "position": 3, "space": 3 if places < 3 else 2, "feature": 6}
    if len(reading.axes) > 3:
        most["feature"] = 4
    groups = min(reading.groups, 2)
    axes = []
    for number, axis in enumerate(reading.axes):
        size = min(axis.size, most[axis.role])
        if number in reading.features and reading.groups > 1:
            size = groups * min(axis.size // reading.groups, 3)
        axes.append(replace(axis, size=size))
    return replace(reading, axes=tuple(axes), groups=groups)


def lines(drawn: TensorPicture) -> tuple[Line, ...]:
    """Write the picture as lines of cells, panels side by side as long as they fit."""
    found: list[Line] = []
    numbers = [n for band in drawn.bands for panel in band for row in panel.cells for n in row]
    digits = len(str(max((n for n in numbers if n is not None), default=0)))
    cell = digits + 2
    wide = max(len(drawn.bands[0][0].cells[0]) * cell, len(drawn.bands[0][0].title))
    fit = max(1, (_LINE + 2) // (wide + 2))
    for band in drawn.bands:
        for start in range(0, len(band), fit):
            some = band[start : start + fit]
            if some[0].title:
                found.append((Piece("  ".join(panel.title.ljust(wide) for panel in some)),))
            for row in range(len(some[0].cells)):
                found.append(_row(some, row, digits, wide))
            found.append(())
    return tuple(found[:-1])


def _row(panels: Sequence[Panel], row: int, digits: int, wide: int) -> Line:
    pieces: list[Piece] = []
    for place, panel in enumerate(panels):
        if place:
            pieces.append(Piece("  "))
        for number in panel.cells[row]:
            text = "." if number is None else str(number)
            pieces.append(Piece(f" {text:>{digits}} ", number))
        pieces.append(Piece(" " * (wide - len(panel.cells[row]) * (digits + 2))))
    return tuple(pieces)


def records(drawn: TensorPicture) -> list[dict[str, object]]:
    """The cells as plain rows: place on the drawing, and the number of the statistic."""
    found: list[dict[str, object]] = []
    for band, panels in enumerate(drawn.bands):
        for place, panel in enumerate(panels):
            for row, cells in enumerate(panel.cells):
                for column, number in enumerate(cells):
                    found.append(
                        {
                            "band": band,
                            "panel": place,
                            "heading": panel.title,
                            "row": row,
                            "column": column,
                            "statistic": number,
                        }
                    )
    return found


def title(spec: NormSpec, sharing: Sharing) -> str:
    """A heading for the picture of one spec.

    Example:
        >>> from normkit.explanation.reading import Options, read
        >>> from normkit.explanation.sharing import share
        >>> from normkit.spec import norm_entry
        >>> entry = norm_entry("rms_norm")
        >>> title(entry.spec, share(entry.spec, read(entry, Options(shape=(2, 3)))))
        '2 statistics (mean square), each of 3 elements'
    """
    if not spec.over:
        return "no statistics: each element alone"
    what = listed([*(["mean"] if spec.center else []), *_SPREADS[spec.scale]])
    each = counted(sharing.size, "element")
    return f"{counted(sharing.count, 'statistic')} ({what}), each of {each}"


_SPREADS = {"std": ["variance"], "rms": ["mean square"], "l2": ["length"], "none": []}
