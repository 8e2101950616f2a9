"""What a recipe is: a task, a grid, measures, and claims with their sources, all plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from normkit.errors import check_choice
from normkit.lab.config import ModelSpec, TrainingSpec
from normkit.lab.task import TaskSpec

Relation = Literal["above", "below", "within"]
# Which runs: a value for each axis that matters; "largest" and "smallest" mean of this grid.
Where = Mapping[str, str | int | float]


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The values of every axis; a comparison runs their product once for each seed."""

    norm: tuple[str, ...] = ("layer_norm", "rms_norm")
    placement: tuple[str, ...] = ("pre",)
    depth: tuple[int, ...] = (2,)
    batch_size: tuple[int, ...] = (32,)
    lr: tuple[float, ...] = (1e-3,)
    dtype: tuple[str, ...] = ("float32",)


@dataclass(frozen=True, kw_only=True)
class Term:
    """``weight`` times one measure of the runs that ``where`` selects, one run for each seed."""

    measure: str
    where: Where
    weight: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A statement that somebody made, as an inequality on a quantity measured once per seed.

    The quantity is the sum of the terms (minus an entropy of the text, where ``minus`` names one).
    Terms of one seed saw the same batches and started from the same weights, so it is a difference
    paired by seed.

    Attributes:
        statement: the claim, for people.
        source: who says so.
        quantity: what the terms measure, for people.
        terms: see above.
        minus: ``unigram`` or ``bigram`` entropy of the text.
        relation, threshold: the claim holds where the quantity is ``above`` or ``below`` the
            threshold, or ``within`` it: between minus and plus the threshold.

    Example:
        >>> claim = Claim(
        ...     statement="RMSNorm loses nothing against LayerNorm",
        ...     source="Zhang and Sennrich 2019",
        ...     quantity="validation loss of RMSNorm minus that of LayerNorm",
        ...     terms=difference("validation_loss", {"norm": "rms_norm"}, {"norm": "layer_norm"}),
        ...     relation="below",
        ...     threshold=0.02,
        ... )
        >>> [term.weight for term in claim.terms]
        [1.0, -1.0]
    """

    statement: str
    source: str
    quantity: str
    terms: tuple[Term, ...]
    relation: Relation
    threshold: float = 0.0
    minus: Literal["unigram", "bigram"] | None = None

    def __post_init__(self) -> None:
        """Refuse a relation outside the vocabulary."""
        check_choice("Claim", "relation", self.relation, ("above", "below", "within"))


def difference(measure: str, first: Where, second: Where) -> tuple[Term, Term]:
    """The two terms of ``measure(first) - measure(second)``."""
    return Term(measure=measure, where=first), Term(measure=measure, where=second, weight=-1.0)


@dataclass(frozen=True, kw_only=True)
class AxisChart:
    """A chart of one measure against one axis of the grid, one series for each arm."""

    measure: str
    axis: Literal["depth", "batch_size", "lr"]
    title: str
    caption: str = ""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One experiment.

    Attributes:
        name: what ``--recipe`` takes.
        title: heading of the page.
        question: what it answers, in one sentence.
        task, model, training: what all runs share.
        grid: what they differ in; options of the command line replace its values.
        seeds: how many, by default.
        tail: the final training loss is the mean over so many last steps.
        rank_by: the measure by which arms are ranked.
        claims: what is judged.
        charts: beside the loss curves that every page has.
        notes: what a reader must know to read the numbers right.
    """

    name: str
    title: str
    question: str
    task: TaskSpec = field(default_factory=TaskSpec)
    model: ModelSpec = field(default_factory=ModelSpec)
    training: TrainingSpec = field(default_factory=TrainingSpec)
    grid: Grid = field(default_factory=Grid)
    seeds: int = 3
    tail: int = 20
    rank_by: str = "validation_loss"
    claims: tuple[Claim, ...] = ()
    charts: tuple[AxisChart, ...] = ()
    notes: tuple[str, ...] = ()
