"""Who trained best, and whether the seeds tell the first from the second."""

from __future__ import annotations

from typing import Any

from normkit.lab.judge import RunSummary
from normkit.lab.ranking import rank
from tests.lab import small


def runs(losses: dict[str, list[float]], **changes: Any) -> list[RunSummary]:
    """One run for each norm and seed."""
    return [
        small.summary(loss, norm=norm, seed=seed, **changes)
        for norm, values in losses.items()
        for seed, loss in enumerate(values)
    ]


def test_told_apart() -> None:
    """The mean decides the order, the paired interval whether it means something."""
    losses = {"rms_norm": [2.11, 2.52], "layer_norm": [2.0, 2.4], "no_norm": [3.0, 3.0]}
    (found,) = rank(runs(losses), "validation_loss")
    assert [standing.arm["norm"] for standing in found.standings] == [
        "layer_norm",
        "rms_norm",
        "no_norm",
    ]
    assert found.group == {}
    assert found.standings[0].behind is None
    assert found.sentence == (
        "Best here: LayerNorm, Pre-norm, final validation loss 2.200 over 2 seeds; next is "
        "RMSNorm, Pre-norm, +0.115 behind [+0.051, +0.179], told apart by 2 seeds."
    )


def test_not_told_apart() -> None:
    """An interval that holds 0."""
    (found,) = rank(runs({"rms_norm": [2.1, 2.4], "layer_norm": [2.0, 2.4]}), "validation_loss")
    assert "not told apart by 2 seeds" in found.sentence


def test_one_seed() -> None:
    """One seed tells nothing apart."""
    (found,) = rank(runs({"rms_norm": [2.1], "layer_norm": [2.0]}), "validation_loss")
    assert found.sentence == (
        "Best here: LayerNorm, Pre-norm, final validation loss 2.000 over 1 seed; next is "
        "RMSNorm, Pre-norm, +0.100 behind, and one seed does not tell them apart."
    )


def test_one_arm() -> None:
    """Alone."""
    (found,) = rank(runs({"rms_norm": [2.1]}), "validation_loss")
    assert found.sentence == (
        "Best here: RMSNorm, Pre-norm, final validation loss 2.100 over 1 seed."
    )


def test_no_seed_in_common() -> None:
    """Two arms that never saw the same batches are not compared."""
    found = [
        small.summary(2.0, norm="layer_norm", seed=0),
        small.summary(2.1, seed=1, norm="no_norm"),
    ]
    (ranking,) = rank(found, "validation_loss")
    assert ranking.sentence.endswith("; next is no norm, Pre-norm, with no seed in common.")


def test_groups_and_learning_rates() -> None:
    """Depths are ranked apart; learning rates compete, as each norm has its own best."""
    found = [
        *runs({"layer_norm": [2.0], "rms_norm": [1.0]}, depth=1),
        *runs({"layer_norm": [2.0], "rms_norm": [3.0]}, depth=2),
        *runs({"layer_norm": [1.5]}, depth=2, lr=0.1),
    ]
    first, second = rank(found, "validation_loss")
    assert (first.group, second.group) == ({"depth": 1}, {"depth": 2})
    assert first.standings[0].arm == {"norm": "rms_norm", "placement": "pre", "lr": 0.001}
    assert second.standings[0].arm == {"norm": "layer_norm", "placement": "pre", "lr": 0.1}
    assert second.sentence.startswith(
        "Best here (depth 2): LayerNorm, Pre-norm, learning rate 0.1, final validation loss 1.500"
    )


def test_diverged_runs_are_counted() -> None:
    """They are there, at the loss of a uniform guess, and said."""
    found = runs({"layer_norm": [2.0], "rms_norm": [4.6]})
    found[1] = RunSummary(found[1].config, "diverged", 3, found[1].measures)
    (ranking,) = rank(found, "validation_loss")
    assert [standing.diverged for standing in ranking.standings] == [0, 1]


def test_runs_without_the_measure_are_left_out() -> None:
    """Nothing to rank by."""
    assert rank(runs({"rms_norm": [2.1]}), "training_loss") == []
    assert rank([], "training_loss") == []
