"""The published setting at 48 layers, trained for real: Post-norm is stuck, the others train."""

from __future__ import annotations

from pathlib import Path

import pytest

from normkit.lab import compare

SEEDS = 3
STUCK, LEARNS = -0.06, -0.4  # nats/character against the unigram entropy


@pytest.mark.slow
def test_48_layers(tmp_path: Path) -> None:
    """Mean training loss of the last 20 of 200 steps, for every seed; no verdict says otherwise."""
    found = compare(recipe="depth", depth=48, seeds=SEEDS, out=tmp_path / "depth", jobs=2)
    gaps: dict[str, list[float]] = {"post": [], "pre": [], "deepnorm": []}
    for run in found.runs:
        assert run.status == "finished"
        gap = run.measures["training_loss"] - found.text.unigram_entropy
        gaps[run.config.placement].append(gap)
    assert {placement: len(values) for placement, values in gaps.items()} == dict.fromkeys(
        gaps, SEEDS
    )
    assert min(gaps["post"]) >= STUCK, gaps
    assert max(gaps["pre"]) <= LEARNS, gaps
    assert max(gaps["deepnorm"]) <= LEARNS, gaps
    assert "does not hold here" not in {verdict.decision for verdict in found.verdicts}
