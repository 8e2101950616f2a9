"""The worked number: real data, the real layer, and nothing else in the process changes."""

from __future__ import annotations

import math
from pydoc_data.topics import topics
from typing import Any

import pytest
import torch

from normkit.explanation import data
from normkit.explanation.reading import Options, read
from normkit.explanation.worked import cut, work
from normkit.spec import NORMS


def worked(name: str, **options: Any) -> Any:
    """The example of a norm."""
    entry = NORMS[name]
    return work(entry, read(entry, Options(**options)))


def test_characters_are_the_text() -> None:
    """Samples are topics, in order; positions their characters; pages their lines."""
    first, second = (topics[name].lstrip("\n") for name in sorted(topics)[:2])
    order = data.alphabet()
    ranks = data.characters(2, (20,))
    assert "".join(order[i] for i in ranks[0].tolist()) == first[:20].replace("\n", " ")
    assert "".join(order[i] for i in ranks[1].tolist()) == second[:20].replace("\n", " ")
    page = data.characters(1, (3, 90))[0]
    for line, text in enumerate(first.split("\n")[:3]):
        assert "".join(order[i] for i in page[line].tolist()) == text.ljust(90)[:90]


def test_features_are_counts() -> None:
    """Feature d of a character: how often the d-th commonest one follows it, counted by hand."""
    text = "\n".join(topics[name].lstrip("\n") for name in sorted(topics))
    order = data.alphabet()
    counts = [text.count(character) for character in order]
    assert counts == sorted(counts, reverse=True)
    start = text[:100_000]
    ranks = torch.tensor([order.index("e")])
    wide = len(order) + 1  # the last feature is two places on
    found = data.features(ranks, wide)[0]
    after = sum(start[i] == "e" and start[i + 1] == order[0] for i in range(len(start) - 1))
    two_on = sum(start[i] == "e" and start[i + 2] == order[0] for i in range(len(start) - 2))
    assert found[0].item() == pytest.approx(math.log1p(after))
    assert found[-1].item() == pytest.approx(math.log1p(two_on))
    before = sum(start[i + 1] == "e" and start[i] == order[0] for i in range(len(start) - 1))
    assert data.features(ranks, 1, back=True).item() == pytest.approx(math.log1p(before))


def test_layer_norm_numbers() -> None:
    """Before: the mean and standard deviation of the data; after: 0 and sqrt(v / (v + eps))."""
    found = worked("layer_norm", shape=(2, 3, 8))
    x = data.features(data.characters(2, (3,)), 8).double()
    assert len(found.rows) == 6
    for row, token in zip(found.rows, x.view(6, 8), strict=True):
        var = token.var(unbiased=False).item()
        assert row.mean_before == pytest.approx(token.mean().item(), rel=1e-6)
        assert row.std_before == pytest.approx(math.sqrt(var), rel=1e-6)
        assert row.mean_after == pytest.approx(0, abs=1e-6)
        assert row.std_after == pytest.approx(math.sqrt(var / (var + 1e-5)), rel=1e-6)
    assert found.layer == "LayerNorm((8,), eps=1e-05, elementwise_affine=True, bias=True)"
    assert found.rows[0].where == f"B0 T0 {topics[min(topics)].lstrip()[0]!r}"


@pytest.mark.parametrize(
    ("name", "options", "quantity"),
    [
        ("batch_norm", {}, "std_after"),
        ("group_norm", {}, "std_after"),
        ("instance_norm", {"shape": (2, 2, 6, 6)}, "std_after"),
        ("rms_norm", {}, "rms_after"),
        ("qk_norm", {}, "rms_after"),
        ("adaptive_layer_norm", {}, "std_after"),
        ("power_norm", {}, "rms_after"),
    ],
)
def test_spread_is_one(name: str, options: dict[str, Any], quantity: str) -> None:
    """What a norm promises of its statistics holds on real data at the start."""
    found = worked(name, **options)
    spread = [getattr(row, quantity) for row in found.rows if row.std_before > 0.3]
    assert spread
    assert spread == pytest.approx([1.0] * len(spread), abs=1e-3)


def test_large_tensors_are_cut() -> None:
    """A real size runs on a part of it, and its features stay."""
    reading = read(NORMS["layer_norm"], Options(shape=(64, 4096, 768)))
    assert cut(reading).feature_shape == (768,)
    assert cut(reading).numel <= 2**16
    found = worked("layer_norm", shape=(64, 4096, 768))
    assert len(found.rows) == 8
    assert found.left == cut(reading).numel // 768 - 8


def test_refusal_is_shown() -> None:
    """A layer that does not run on the shape says why, in its own words."""
    found = worked("batch_norm", shape=(1, 3))
    assert not found.rows
    assert found.refusal.startswith("BatchNorm1d: training needs more than one value per channel;")


def test_nothing_else_changes() -> None:
    """torch's generator stays where it was, and the same call gives the same numbers."""
    before = torch.get_rng_state()
    first, second = worked("adaptive_layer_norm"), worked("adaptive_layer_norm")
    assert torch.equal(before, torch.get_rng_state())
    assert first == second
