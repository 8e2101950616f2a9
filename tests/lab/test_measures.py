"""What a run is worth, from its records."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from normkit.lab.measures import MEASURES, diverged, measure, step_spread


def rows(split: str, values: list[float | None], metric: str = "loss") -> list[dict[str, object]]:
    """Records of one series."""
    return [{"metric": metric, "split": split, "value": value} for value in values]


def test_each_measure() -> None:
    """The last of a series, the mean of a tail, the median of speeds."""
    found = measure(
        [
            *rows("train", [9.0, 4.0, 3.0, 2.0]),
            *rows("validation", [5.0, 4.5]),
            *rows("validation_batch_statistics", [4.0, 3.5]),
            *rows("train", [1.0, 9.0, 2.0], metric="tokens_per_s"),
            *rows("train", [1.0, 1.0], metric="gradient_norm"),
        ],
        tail=3,
    )
    assert found == {
        "training_loss": 3.0,
        "step_spread": 0.0,
        "validation_loss": 4.5,
        "validation_batch_loss": 3.5,
        "tokens_per_s": 2.0,
    }
    assert found.keys() == MEASURES.keys()


def test_what_is_not_there_is_left_out() -> None:
    """A norm of one token has no batch statistics; null is no number."""
    assert measure(rows("validation", [2.0, None]), tail=3) == {"validation_loss": 2.0}
    assert measure([], tail=3) == {}


def test_a_diverged_run_is_a_uniform_guess() -> None:
    """ln V for each loss; its speed stays, its spread means nothing."""
    found = diverged({"training_loss": 99.0, "step_spread": 5.0, "tokens_per_s": 7.0}, 50)
    losses = ("training_loss", "validation_loss", "validation_batch_loss")
    assert found == {"tokens_per_s": 7.0, **dict.fromkeys(losses, math.log(50))}


@given(st.lists(st.floats(0, 10), min_size=4, max_size=40))
def test_step_spread(losses: list[float]) -> None:
    """The definition: the deviation of the changes over the second half; a drift adds nothing."""
    half = losses[len(losses) // 2 :]
    changes = [half[i + 1] - half[i] for i in range(len(half) - 1)]
    assert step_spread(losses) == pytest.approx(statistics.pstdev(changes), abs=1e-12)
    drift = [loss - 0.25 * index for index, loss in enumerate(losses)]
    assert step_spread(drift) == pytest.approx(step_spread(losses), abs=1e-9)


def test_step_spread_of_a_short_run() -> None:
    """One step has no change."""
    assert step_spread([1.0]) == 0.0
