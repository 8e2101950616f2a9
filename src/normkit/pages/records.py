"""What a page is made of, as plain frozen records."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import altair as alt

Verdict = Literal["holds", "does not hold here", "undecided", "measured"]
XScale = Literal["linear", "log", "category"]

VERDICTS: tuple[Verdict, ...] = ("holds", "does not hold here", "undecided", "measured")
X_SCALES: tuple[XScale, ...] = ("linear", "log", "category")

CHART_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")


def refuse(who: str, rule: str, came: str) -> ValueError:
    """Build the error for a record that means nothing: the rule, then what came."""
    return ValueError(f"{who}: {rule}; {came}.")


@dataclass(frozen=True, kw_only=True)
class VerdictCard:
    """A claim and what the measurements say about it; drawn first on the page.

    Attributes:
        claim: the sentence that was put to the test.
        source: where the claim comes from.
        verdict: ``holds``, ``does not hold here``, ``undecided``, or ``measured`` for a result
            that answers no claim.
        sentence: the numbers behind the verdict, in one sentence.
        details: more numbers, shown when the card is opened.
    """

    claim: str
    source: str
    verdict: Verdict
    sentence: str
    details: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a verdict outside the vocabulary."""
        if self.verdict not in VERDICTS:
            rule = f"verdict must be one of {', '.join(map(repr, VERDICTS))}"
            raise refuse("VerdictCard", rule, f"verdict is {self.verdict!r}")


@dataclass(frozen=True, kw_only=True)
class Axes:
    """Which column of the long-form rows is what, and how it is called on the chart.

    Attributes:
        x, y, series: names of columns. ``y`` holds the value; None, NaN and inf mean diverged.
        x_title, y_title: what the axes say, units included.
        series_title: heading of the legend; the column name when empty.
        facet: one panel for each value of this column.
        facet_title: stands before the value over each panel: ``placement: pre``.
        seed: the column that tells repetitions apart; None where rows have none.
        low, high: columns with a ready interval around ``y``; then a row is a point, and ``seed``
            is not read.
        x_scale: ``linear``, ``log``, or ``category`` (equal steps in the order of the rows).
        series_order: every series of the whole page, so that a name has one colour in all charts.
    """

    x: str
    y: str
    series: str
    x_title: str
    y_title: str
    series_title: str = ""
    facet: str | None = None
    facet_title: str = ""
    seed: str | None = "seed"
    low: str | None = None
    high: str | None = None
    x_scale: XScale = "linear"
    series_order: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse an unknown scale and half an interval."""
        if self.x_scale not in X_SCALES:
            rule = f"x_scale must be one of {', '.join(map(repr, X_SCALES))}"
            raise refuse("Axes", rule, f"x_scale is {self.x_scale!r}")
        if (self.low is None) != (self.high is None):
            rule = "low and high must be given together"
            raise refuse("Axes", rule, f"low is {self.low!r}, high is {self.high!r}")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that every row must have."""
        seed = self.seed if self.low is None else None
        named = (self.x, self.y, self.series, self.facet, seed, self.low, self.high)
        return tuple(name for name in named if name is not None)


@dataclass(frozen=True, kw_only=True)
class Reference:
    """A horizontal line with a name, such as the unigram entropy of the text."""

    value: float
    label: str


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A drawn chart: ``spec`` is any Altair chart, ``name`` its file name and anchor."""

    name: str
    title: str
    spec: alt.TopLevelMixin
    caption: str = ""

    def __post_init__(self) -> None:
        """Refuse a name that cannot be a file name on every system."""
        if not CHART_NAME.fullmatch(self.name):
            rule = "name must be lower-case letters, digits, '-' and '_'"
            raise refuse("Chart", rule, f"name is {self.name!r}")


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows under headings; ``columns`` maps the key in each row to the heading it gets."""

    title: str
    columns: Mapping[str, str]
    rows: Sequence[Mapping[str, object]]
    caption: str = ""


@dataclass(frozen=True, kw_only=True)
class Details:
    """A group of names and values that is folded away: a configuration, versions."""

    title: str
    items: Mapping[str, object]


@dataclass(frozen=True, kw_only=True)
class Page:
    """A whole page, in the order in which it is read.

    Example:
        >>> page = Page(title="Which norm?", lead="Five norms, three seeds.")
        >>> page.charts
        ()
    """

    title: str
    lead: str = ""
    verdicts: Sequence[VerdictCard] = ()
    charts: Sequence[Chart] = ()
    tables: Sequence[Table] = ()
    details: Sequence[Details] = ()

    def __post_init__(self) -> None:
        """Refuse two charts of one name: their pictures would overwrite each other."""
        names = [chart.name for chart in self.charts]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise refuse("Page", "chart names must differ", f"{twice[0]!r} comes twice")
