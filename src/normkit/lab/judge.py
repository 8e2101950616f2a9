"""From measured runs to verdicts on claims."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from normkit.lab.config import AXES, RunConfig
from normkit.lab.measures import MEASURES
from normkit.lab.recipe import Claim, Term
from normkit.lab.verdict import (
    MOST_SEEDS,
    Decision,
    Interval,
    decide,
    paired_interval,
    seeds_to_decide,
)
from normkit.lab.words import axis_name, count, place_words, range_words, signed

Value = str | int | float
Place = Mapping[str, Value]


@dataclass(frozen=True)
class RunSummary:
    """A run that ended, and what it is worth.

    Attributes:
        status: ``finished`` or ``diverged``.
        measures: see :func:`normkit.lab.measures.measure`.
    """

    config: RunConfig
    status: str
    step: int
    measures: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What the runs say about a claim.

    Attributes:
        claim: the statement.
        source: whose it is.
        decision: ``holds``, ``does not hold here`` or ``undecided``.
        sentence: the numbers, in one sentence.
        interval: of the quantity; None where runs are missing.
        differences: the quantity by seed.
        place: the values of axes that the claim leaves open and the grid varies.
    """

    claim: str
    source: str
    decision: Decision
    sentence: str
    interval: Interval | None = None
    differences: Mapping[int, float] = field(default_factory=dict)
    place: Place = field(default_factory=dict)


def judge(
    claims: Sequence[Claim], runs: Sequence[RunSummary], entropies: Mapping[str, float]
) -> list[Verdict]:
    """Judge every claim, once for each combination of the axes that it leaves open.

    Args:
        claims: what is claimed.
        runs: the runs that ended; at most one for each configuration.
        entropies: ``unigram`` and ``bigram`` entropy of the text.
    """
    return [
        _judge_one(claim, place, runs, entropies)
        for claim in claims
        for place in _places(claim, runs)
    ]


def axis_values(runs: Sequence[RunSummary]) -> dict[str, list[Value]]:
    """The values that the runs take on every axis, each once, in the order of the runs."""
    return {axis: list(dict.fromkeys(getattr(run.config, axis) for run in runs)) for axis in AXES}


def _places(claim: Claim, runs: Sequence[RunSummary]) -> Iterator[Place]:
    """Every combination of values of the axes that no term names and that vary."""
    named = {axis for term in claim.terms for axis in term.where} | {"seed"}
    values = axis_values(runs)
    open_axes = [axis for axis in AXES if axis not in named and len(values[axis]) > 1]
    for combination in itertools.product(*(values[axis] for axis in open_axes)):
        yield dict(zip(open_axes, combination, strict=True))


def _judge_one(
    claim: Claim, place: Place, runs: Sequence[RunSummary], entropies: Mapping[str, float]
) -> Verdict:
    wheres = [_resolve(term, place, runs) for term in claim.terms]
    selected = [_by_seed(t, where, runs) for t, where in zip(claim.terms, wheres, strict=True)]
    lacking = _lacking(claim, wheres, selected)
    if lacking:
        return _verdict(claim, place, "undecided", lacking)
    offset = entropies[claim.minus] if claim.minus else 0.0
    weights = [term.weight for term in claim.terms]
    differences = {
        seed: sum(w * found[seed] for w, found in zip(weights, selected, strict=True)) - offset
        for seed in _shared(selected)
    }
    interval = paired_interval(list(differences.values()))
    decision = decide(interval, claim.relation, claim.threshold)
    text = _numbers(claim, interval, decision)
    return _verdict(claim, place, decision, text, interval=interval, differences=differences)


def _verdict(
    claim: Claim,
    place: Place,
    decision: Decision,
    text: str,
    *,
    interval: Interval | None = None,
    differences: Mapping[int, float] | None = None,
) -> Verdict:
    return Verdict(
        claim=claim.statement,
        source=claim.source,
        decision=decision,
        sentence=text,
        interval=interval,
        differences=differences or {},
        place=place,
    )


def _resolve(term: Term, place: Place, runs: Sequence[RunSummary]) -> dict[str, Value]:
    """Fill in ``largest`` and ``smallest``, and the open axes."""
    values = axis_values(runs)
    extremes = {"largest": max, "smallest": min}
    where = {
        axis: extremes[str(value)](values[axis]) if value in extremes and values[axis] else value
        for axis, value in term.where.items()
    }
    return {**place, **where}


def _by_seed(term: Term, where: Place, runs: Sequence[RunSummary]) -> dict[int, float]:
    return {
        run.config.seed: run.measures[term.measure]
        for run in runs
        if term.measure in run.measures
        and all(getattr(run.config, axis) == value for axis, value in where.items())
    }


def _shared(selected: Sequence[Mapping[int, float]]) -> list[int]:
    return sorted(set.intersection(*(set(found) for found in selected)))


def _lacking(claim: Claim, wheres: Sequence[Place], selected: Sequence[Mapping[int, float]]) -> str:
    """Say which runs a claim needs and does not have; empty where it has all."""
    for term, where, found in zip(claim.terms, wheres, selected, strict=True):
        if not found:
            return f"It needs the {MEASURES[term.measure].title} of {place_words(where)}."
    for (first, one), (second, two) in itertools.combinations(
        zip(claim.terms, wheres, strict=True), 2
    ):
        if first.measure == second.measure and one == two:
            axes = [axis_name(a) for a, value in first.where.items() if value != second.where[a]]
            return f"It needs two different values of {', '.join(axes)}."
    return "" if _shared(selected) else "No seed has all the runs that it needs."


def _numbers(claim: Claim, interval: Interval, decision: Decision) -> str:
    unit = MEASURES[claim.terms[0].measure].unit
    wanted = {
        "above": f"above {claim.threshold:g}",
        "below": f"below {claim.threshold:g}",
        "within": f"within {claim.threshold:g} of 0",
    }[claim.relation]
    quantity = claim.quantity[:1].upper() + claim.quantity[1:]
    measured = f"{quantity}: {signed(interval.mean)} {unit}"
    if interval.count == 1:
        advice = "one seed has no spread to judge by, so run at least 2 (--seeds 3)"
        return f"{measured} with 1 seed; {advice}."
    text = (
        f"{measured}, {interval.confidence:.0%} interval "
        f"{range_words(interval.low, interval.high)} over {count(interval.count, 'seed')}; "
        f"the claim says {wanted}"
    )
    return f"{text}{_more_seeds(claim, interval)}." if decision == "undecided" else f"{text}."


def _more_seeds(claim: Claim, interval: Interval) -> str:
    needed = seeds_to_decide(interval, claim.relation, claim.threshold)
    if needed is None:
        return f", and more than {MOST_SEEDS} seeds would be needed to decide"
    return f", and about {needed} seeds would decide (--seeds {needed})"
