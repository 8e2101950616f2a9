"""Claims: planted ones come out right, and what cannot be judged says why."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest

from normkit.lab.judge import RunSummary, Verdict, judge
from normkit.lab.recipe import Claim, Term, difference
from tests.lab import small

ENTROPIES = {"unigram": 3.25, "bigram": 2.4}
BETTER = Claim(
    statement="RMSNorm is better",
    source="someone",
    quantity="validation loss of RMSNorm minus that of LayerNorm",
    terms=difference("validation_loss", {"norm": "rms_norm"}, {"norm": "layer_norm"}),
    relation="below",
)


def runs(gap: float, *, noise: float = 0.01, seeds: int = 5, **changes: Any) -> list[RunSummary]:
    """Runs of two norms; RMSNorm is worse by ``gap``; the seed moves both together by much more."""
    draw = random.Random(repr((gap, noise, seeds, changes)))
    found = []
    for seed in range(seeds):
        base = draw.gauss(2.0, 0.5)
        for norm, extra in (("layer_norm", 0.0), ("rms_norm", gap)):
            loss = base + extra + draw.gauss(0.0, noise)
            found.append(small.summary(loss, norm=norm, seed=seed, **changes))
    return found


def one(claim: Claim, found: list[RunSummary]) -> Verdict:
    """The only verdict."""
    (verdict,) = judge([claim], found, ENTROPIES)
    return verdict


def test_planted_true_claim_holds() -> None:
    """A gap of 0.1, ten times the noise, though seeds differ by 0.5: pairing takes that out."""
    verdict = one(BETTER, runs(-0.1))
    assert verdict.decision == "holds"
    assert (verdict.claim, verdict.source, verdict.place) == ("RMSNorm is better", "someone", {})
    assert sorted(verdict.differences) == [0, 1, 2, 3, 4]


def test_planted_false_claim_does_not_hold() -> None:
    """The same gap the other way."""
    assert one(BETTER, runs(0.1)).decision == "does not hold here"


def test_planted_null_is_undecided() -> None:
    """No gap: the sentence says how many seeds would decide."""
    verdict = one(BETTER, runs(0.002, noise=0.02))
    assert verdict.decision == "undecided"
    assert "seeds would" in verdict.sentence


def exact(values: list[float], **changes: Any) -> list[RunSummary]:
    """LayerNorm at 1, RMSNorm at 1 plus the value, for each seed."""
    return [
        small.summary(1.0 + extra, norm=norm, seed=seed, **changes)
        for seed, value in enumerate(values)
        for norm, extra in (("layer_norm", 0.0), ("rms_norm", value))
    ]


QUANTITY = "Validation loss of RMSNorm minus that of LayerNorm"


def test_sentences() -> None:
    """The numbers behind each decision, word for word."""
    assert one(BETTER, exact([-0.3, -0.2, -0.1])).sentence == (
        f"{QUANTITY}: -0.200 nats/character, 95% interval [-0.448, +0.048] over 3 seeds; "
        "the claim says below 0, and about 4 seeds would decide (--seeds 4)."
    )
    assert one(BETTER, exact([-0.31, -0.3, -0.29])).sentence == (
        f"{QUANTITY}: -0.300 nats/character, 95% interval [-0.325, -0.275] over 3 seeds; "
        "the claim says below 0."
    )
    assert one(BETTER, exact([-0.3])).sentence == (
        f"{QUANTITY}: -0.300 nats/character with 1 seed; one seed has no spread to judge by, "
        "so run at least 2 (--seeds 3)."
    )
    assert one(BETTER, exact([-0.3, 0.3])).sentence.endswith(
        "the claim says below 0, and more than 1000 seeds would be needed to decide."
    )
    within = dataclasses.replace(BETTER, relation="within", threshold=0.5)
    assert one(within, exact([-0.31, -0.3, -0.29])).sentence.endswith(
        "the claim says within 0.5 of 0."
    )


def test_entropies_are_subtracted() -> None:
    """A quantity against the unigram entropy of the text."""
    claim = dataclasses.replace(
        BETTER,
        terms=(Term(measure="validation_loss", where={"norm": "layer_norm"}),),
        minus="unigram",
    )
    verdict = one(claim, exact([0.0, 0.0]))
    assert verdict.differences == {0: 1.0 - 3.25, 1: 1.0 - 3.25}


def test_weights() -> None:
    """A quantity of four terms: how much more one norm grows than the other."""
    found = [
        small.summary(loss, norm=norm, batch_size=batch_size)
        for norm, batch_size, loss in (
            ("layer_norm", 4, 1.0),
            ("layer_norm", 2, 1.25),
            ("rms_norm", 4, 1.5),
            ("rms_norm", 2, 2.5),
        )
    ]
    terms = tuple(
        Term(measure="validation_loss", where={"norm": norm, "batch_size": extreme}, weight=weight)
        for norm, extreme, weight in (
            ("rms_norm", "smallest", 1.0),
            ("rms_norm", "largest", -1.0),
            ("layer_norm", "smallest", -1.0),
            ("layer_norm", "largest", 1.0),
        )
    )
    assert one(dataclasses.replace(BETTER, terms=terms), found).differences == {0: 0.75}
    single = [run for run in found if run.config.batch_size == 4]
    verdict = one(dataclasses.replace(BETTER, terms=terms), single)
    assert verdict.decision == "undecided"
    assert verdict.sentence == "It needs two different values of batch size."


def test_open_axes_are_judged_one_by_one() -> None:
    """Two depths that the claim does not name: two verdicts, each from its own runs."""
    found = exact([-0.1, -0.1], depth=1) + exact([0.1, 0.1], depth=2)
    verdicts = judge([BETTER], found, ENTROPIES)
    assert [(verdict.place, verdict.decision) for verdict in verdicts] == [
        ({"depth": 1}, "holds"),
        ({"depth": 2}, "does not hold here"),
    ]


def test_only_seeds_that_all_terms_have() -> None:
    """A run that failed takes its seed out, not the verdict."""
    found = exact([-0.1, -0.2, -0.3])
    del found[0]
    assert sorted(one(BETTER, found).differences) == [1, 2]


def test_missing_runs() -> None:
    """The sentence names what is missing."""
    only = [run for run in exact([0.1, 0.2]) if run.config.norm == "rms_norm"]
    verdict = one(BETTER, only)
    assert verdict.decision == "undecided"
    assert verdict.sentence == "It needs the final validation loss of LayerNorm."
    apart = [run for run in exact([0.1, 0.2]) if run.config.seed == (run.config.norm == "rms_norm")]
    assert one(BETTER, apart).sentence == "No seed has all the runs that it needs."
    assert one(BETTER, []).sentence == "It needs the final validation loss of RMSNorm."


@pytest.mark.parametrize("measure", ["training_loss", "step_spread"])
def test_a_measure_that_a_run_lacks(measure: str) -> None:
    """The value of another measure is never taken."""
    terms = difference(measure, {"norm": "rms_norm"}, {"norm": "layer_norm"})
    verdict = one(dataclasses.replace(BETTER, terms=terms), exact([0.1, 0.2]))
    assert (verdict.decision, verdict.interval) == ("undecided", None)
