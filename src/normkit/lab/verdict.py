"""holds, does not hold here, undecided: a Student-t interval on differences paired by seed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from normkit.errors import OptionError, check_choice, sentence
from normkit.lab.recipe import Relation

Decision = Literal["holds", "does not hold here", "undecided"]
MOST_SEEDS = 1000


@dataclass(frozen=True)
class Interval:
    """Where the mean difference lies, with the given confidence.

    Attributes:
        spread: standard deviation between seeds (n - 1); NaN for one seed.
        low, high: infinite for one seed, which has no spread to judge by.
    """

    mean: float
    low: float
    high: float
    count: int
    spread: float
    confidence: float


def paired_interval(differences: Sequence[float], confidence: float = 0.95) -> Interval:
    """Student-t interval for the mean of differences, one for each seed.

    ``mean +- t * s / sqrt(n)`` with s the standard deviation (n - 1) and t the quantile with n - 1
    degrees of freedom. Right where the differences of seeds are about normal.

    Raises:
        OptionError: no difference, or a confidence outside (0, 1).

    Example:
        >>> interval = paired_interval([0.9, 1.0, 1.1])
        >>> round(interval.low, 3), round(interval.high, 3)
        (0.752, 1.248)
    """
    if not differences:
        rule = "an interval needs at least one difference"
        raise OptionError(sentence("paired_interval", rule, "there is none"))
    if not 0.0 < confidence < 1.0:
        rule = "confidence must lie in (0, 1)"
        raise OptionError(sentence("paired_interval", rule, f"confidence is {confidence}"))
    count, mean = len(differences), statistics.fmean(differences)
    if count == 1:
        return Interval(mean, -math.inf, math.inf, 1, math.nan, confidence)
    spread = statistics.stdev(differences)
    half = _quantile(confidence, count) * spread / math.sqrt(count)
    return Interval(mean, mean - half, mean + half, count, spread, confidence)


def decide(interval: Interval, relation: Relation, threshold: float) -> Decision:
    """Say whether the whole interval is on the claim's side, on the other, or on neither.

    Example:
        >>> decide(paired_interval([0.9, 1.0, 1.1]), "above", 0.5)
        'holds'
        >>> decide(paired_interval([1.0]), "above", 0.5)
        'undecided'
    """
    check_choice("decide", "relation", relation, ("above", "below", "within"))
    low, high = interval.low, interval.high
    if relation == "below":
        low, high = -high, -low
        threshold = -threshold
    if relation == "within":
        if -threshold < low and high < threshold:
            return "holds"
        return "does not hold here" if low > threshold or high < -threshold else "undecided"
    if low > threshold:
        return "holds"
    return "does not hold here" if high < threshold else "undecided"


def seeds_to_decide(interval: Interval, relation: Relation, threshold: float) -> int | None:
    """Smallest larger number of seeds whose interval would clear the threshold.

    It takes the mean and the spread to stay what they are. None: one seed has no spread, or more
    than ``MOST_SEEDS`` would be needed.

    Example:
        >>> seeds_to_decide(paired_interval([0.1, -0.1, 0.3, 0.1]), "above", 0.0)
        13
    """
    if interval.count < 2:
        return None
    centre = abs(interval.mean) if relation == "within" else interval.mean
    distance = abs(centre - threshold)
    for count in range(interval.count + 1, MOST_SEEDS + 1):
        if _quantile(interval.confidence, count) * interval.spread < distance * math.sqrt(count):
            return count
    return None


@cache
def _quantile(confidence: float, count: int) -> float:
    from scipy import stats  # half a second: only where a verdict is due

    return float(stats.t.ppf(0.5 + confidence / 2, df=count - 1))
