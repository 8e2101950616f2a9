"""The interval has the coverage that it says, and the decision is what the interval says."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from normkit.errors import OptionError
from normkit.lab.recipe import Relation
from normkit.lab.verdict import Interval, decide, paired_interval, seeds_to_decide

RELATIONS: tuple[Relation, ...] = ("above", "below", "within")
values = st.floats(-1e3, 1e3).map(lambda value: round(value, 6))


@pytest.mark.parametrize("seeds", [2, 3, 5, 10])
def test_coverage(seeds: int) -> None:
    """Of 4000 simulated comparisons, 95 % of the intervals hold the true difference."""
    draw = np.random.default_rng(seeds)
    noise = draw.normal(0.3, 0.05, size=(4000, seeds))
    found = [paired_interval(row.tolist()) for row in noise]
    covered = sum(interval.low <= 0.3 <= interval.high for interval in found) / len(found)
    assert 0.93 <= covered <= 0.97


def test_a_wrong_claim_is_rarely_confirmed() -> None:
    """At a true difference of 0, "above 0" holds in 2.5 % of the comparisons."""
    draw = np.random.default_rng(0)
    found = [paired_interval(row.tolist()) for row in draw.normal(0.0, 1.0, size=(4000, 3))]
    wrong = sum(decide(interval, "above", 0.0) == "holds" for interval in found) / len(found)
    assert 0.015 <= wrong <= 0.035


@given(st.lists(values, min_size=2, max_size=9), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_against_scipys_own_interval(differences: list[float], confidence: float) -> None:
    """The same interval from scipy's interval method."""
    found = paired_interval(differences, confidence)
    mean, error = statistics.fmean(differences), statistics.stdev(differences)
    scale = error / math.sqrt(len(differences))
    if scale == 0:
        assert (found.low, found.high) == (mean, mean)
        return
    low, high = stats.t.interval(confidence, len(differences) - 1, loc=mean, scale=scale)
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-9, abs=1e-9)


def test_one_seed_is_undecided_by_construction() -> None:
    """However large the difference."""
    interval = paired_interval([1e6])
    assert (interval.low, interval.high, interval.count) == (-math.inf, math.inf, 1)
    assert all(decide(interval, relation, 0.1) == "undecided" for relation in RELATIONS)
    assert seeds_to_decide(interval, "above", 0.0) is None


def interval(low: float, high: float, count: int = 3) -> Interval:
    """An interval by its ends; the spread is the one that gives them."""
    mean, half = (low + high) / 2, (high - low) / 2
    t = float(stats.t.ppf(0.975, count - 1))
    return Interval(mean, low, high, count, half * math.sqrt(count) / t, 0.95)


DECISIONS = [
    ("above", 0.1, 0.2, 0.3, "holds"),
    ("above", 0.1, 0.0, 0.3, "undecided"),
    ("above", 0.1, -0.3, 0.05, "does not hold here"),
    ("above", 0.1, 0.1, 0.3, "undecided"),  # the threshold itself is not above
    ("below", 0.1, -0.3, 0.05, "holds"),
    ("below", 0.1, 0.0, 0.3, "undecided"),
    ("below", 0.1, 0.2, 0.3, "does not hold here"),
    ("within", 0.1, -0.05, 0.09, "holds"),
    ("within", 0.1, -0.05, 0.3, "undecided"),
    ("within", 0.1, -0.2, 0.2, "undecided"),
    ("within", 0.1, 0.2, 0.3, "does not hold here"),
    ("within", 0.1, -0.3, -0.2, "does not hold here"),
]


@pytest.mark.parametrize(("relation", "threshold", "low", "high", "decision"), DECISIONS)
def test_decisions(
    relation: Relation, threshold: float, low: float, high: float, decision: str
) -> None:
    """The whole interval on the claim's side, on the other, or on neither."""
    assert decide(interval(low, high), relation, threshold) == decision


@given(st.lists(values, min_size=1, max_size=6), values)
def test_above_and_below_mirror_each_other(differences: list[float], threshold: float) -> None:
    """Turning all signs turns the relation, and nothing else."""
    one = paired_interval(differences)
    other = paired_interval([-value for value in differences])
    assert decide(one, "above", threshold) == decide(other, "below", -threshold)
    assert seeds_to_decide(one, "above", threshold) == seeds_to_decide(other, "below", -threshold)


@pytest.mark.parametrize(
    ("relation", "threshold", "low", "high"),
    [case[:4] for case in DECISIONS if case[4] == "undecided" and case[2] != case[1]],
)
def test_the_number_of_seeds_decides(
    relation: Relation, threshold: float, low: float, high: float
) -> None:
    """With that many seeds of the same mean and spread it is decided, with one less it is not."""
    undecided = interval(low, high)
    needed = seeds_to_decide(undecided, relation, threshold)
    if needed is None:
        assert undecided.mean == pytest.approx(threshold)
        return

    def with_seeds(count: int) -> str:
        half = float(stats.t.ppf(0.975, count - 1)) * undecided.spread / math.sqrt(count)
        low, high = undecided.mean - half, undecided.mean + half
        found = Interval(undecided.mean, low, high, count, undecided.spread, 0.95)
        return decide(found, relation, threshold)

    assert needed > undecided.count
    assert with_seeds(needed) != "undecided"
    assert with_seeds(needed - 1) == "undecided"


def test_too_many_seeds_is_none() -> None:
    """A mean on the threshold is never decided."""
    assert seeds_to_decide(interval(-1.0, 1.0), "above", 0.0) is None


def test_no_difference_is_refused() -> None:
    """An interval of nothing."""
    with pytest.raises(OptionError) as caught:
        paired_interval([])
    assert str(caught.value) == (
        "paired_interval: an interval needs at least one difference; there is none."
    )


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95, math.nan])
def test_a_wrong_confidence_is_refused(confidence: float) -> None:
    """95 is not 0.95."""
    with pytest.raises(OptionError) as caught:
        paired_interval([1.0, 2.0], confidence)
    assert str(caught.value) == (
        f"paired_interval: confidence must lie in (0, 1); confidence is {confidence}."
    )


def test_an_unknown_relation_is_refused() -> None:
    """The vocabulary of relations is closed."""
    with pytest.raises(OptionError) as caught:
        decide(interval(0, 1), "over", 0.0)  # type: ignore[arg-type]
    assert str(caught.value) == (
        "decide: relation must be 'above', 'below' or 'within'; relation is 'over'."
    )
