"""Whether one function is faster than another, from rounds that they shared."""

from __future__ import annotations

import math
from dataclasses import dataclass

from normkit.errors import OptionError, sentence
from normkit.measure.time import Timing, quantile

AGREEING = 0.8  # share of the rounds in which the same one must have been faster
CHANCE = 0.05  # a fair coin may not agree that often with at least this probability


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """How many times faster a function was than another, in the median of shared rounds.

    Attributes:
        p20, p50, p80: quantiles of the ratio of a round; above 1 the function was faster.
        differs: whether that is more than the spread between rounds, see :func:`time_ratio`.
    """

    p20: float
    p50: float
    p80: float
    differs: bool

    def __str__(self) -> str:
        """``3.21x``, or ``no difference``.

        Example:
            >>> print(Ratio(p20=0.9, p50=1.02, p80=1.2, differs=False))
            no difference
        """
        return f"{self.p50:.2f}x" if self.differs else "no difference"


def time_ratio(other: Timing, ours: Timing) -> Ratio:
    """``time of other / time of ours``, round by round.

    The two differ when the same one was faster in at least 4 of 5 rounds (so the spread from the
    20th to the 80th percentile does not hold 1), and a fair coin would agree with itself so often
    less than 1 time in 20 (so there were enough rounds: 6 where all agree). A tie counts for the
    other side. Both are ranks, so one disturbed round weighs no more than any other.

    Raises:
        OptionError: the two come from different numbers of rounds.

    Example:
        >>> ours = Timing(times_us=(1.0, 1.1, 0.9, 1.0, 1.2, 1.0))
        >>> print(time_ratio(Timing(times_us=(2.0, 2.1, 2.0, 1.9, 2.2, 2.0)), ours))
        1.95x
    """
    if len(other.times_us) != len(ours.times_us):
        rule = "both timings must come from the same rounds"
        came = f"they have {len(other.times_us)} and {len(ours.times_us)}"
        raise OptionError(sentence("time_ratio", rule, came))
    ratios = [a / b for a, b in zip(other.times_us, ours.times_us, strict=True)]
    above, below = sum(r > 1 for r in ratios), sum(r < 1 for r in ratios)
    agreeing, count = max(above, below), len(ratios)
    return Ratio(
        p20=quantile(ratios, 0.2),
        p50=quantile(ratios, 0.5),
        p80=quantile(ratios, 0.8),
        differs=agreeing >= AGREEING * count and coin(agreeing, count) < CHANCE,
    )


def coin(agreeing: int, count: int) -> float:
    """Probability that a fair coin, thrown ``count`` times, shows one side that often or more.

    Example:
        >>> coin(6, 6)
        0.03125
    """
    tail: float = sum(math.comb(count, k) for k in range(agreeing, count + 1)) / 2**count
    return min(1.0, 2 * tail)
