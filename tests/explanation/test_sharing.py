"""Which elements share a statistic, against brute force on the real layers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from normkit.explanation.layer import build, call
from normkit.explanation.reading import Options, Reading, read
from normkit.explanation.sharing import in_words, labels, share
from normkit.explanation.signature import stages
from normkit.spec import NORMS

SHAPES: list[tuple[str, dict[str, Any]]] = [
    ("layer_norm", {"shape": (4, 2, 3)}),
    ("layer_norm", {"shape": (4, 2, 3), "normalized_shape": (2, 3)}),
    ("layer_norm", {"shape": (4, 2, 3), "normalized_shape": (4, 2, 3)}),
    ("layer_norm", {"shape": (2, 2, 2, 3)}),
    ("rms_norm", {"shape": (5,)}),
    ("batch_norm", {"shape": (4, 3)}),
    ("batch_norm", {"shape": (2, 3, 4)}),
    ("batch_norm", {"shape": (2, 2, 3, 2)}),
    ("batch_norm", {"shape": (2, 3, 4), "channel_axis": -1}),
    ("masked_batch_norm", {"shape": (2, 3, 4)}),
    ("group_norm", {"shape": (2, 6, 3), "groups": 3}),
    ("group_norm", {"shape": (2, 4, 2, 2), "groups": 2}),
    ("instance_norm", {"shape": (2, 3, 4)}),
    ("instance_norm", {"shape": (2, 2, 2, 3)}),
    ("channel_layer_norm", {"shape": (2, 3, 2, 2)}),
    ("channel_layer_norm", {"shape": (2, 2, 3), "channel_axis": -1}),
    ("scale_norm", {"shape": (2, 3, 4)}),
    ("gated_rms_norm", {"shape": (2, 3, 4)}),
    ("adaptive_layer_norm", {"shape": (2, 3, 4)}),
    ("adaptive_rms_norm", {"shape": (2, 3, 4)}),
    ("qk_norm", {"shape": (2, 2, 3, 4)}),
    ("dynamic_tanh", {"shape": (2, 3, 4)}),
    ("dynamic_erf", {"shape": (2, 3, 4)}),
    ("no_norm", {"shape": (2, 3, 4)}),
    ("power_norm", {"shape": (2, 3, 4)}),
    ("power_norm", {"shape": (2, 3, 4), "groups": 2}),
]


def reached(name: str, reading: Reading) -> Tensor:
    """(numel, numel) bool: whether output j of the real layer moves when input i does."""
    entry = NORMS[name]
    x = torch.randn(reading.shape, dtype=torch.float64)
    second = torch.randn(reading.shape, dtype=torch.float64)

    def run(value: Tensor) -> Tensor:
        torch.manual_seed(0)
        layer = build(entry, reading).double()  # afresh: running statistics start again
        with torch.no_grad():
            return call(layer, entry, reading, value, second).flatten()

    y = run(x)
    rows = []
    for i in range(x.numel()):
        moved = x.flatten().clone()
        moved[i] += 0.7
        rows.append((run(moved.view_as(x)) - y).abs() > 1e-13)
    return torch.stack(rows)


@pytest.mark.parametrize(("name", "options"), SHAPES, ids=lambda value: str(value))
def test_labels_are_what_the_layer_does(name: str, options: dict[str, Any]) -> None:
    """Two elements carry one number exactly where moving one moves the other's output.

    In a composite the steps follow each other: what shares a statistic in the first step, or then
    in the second, is reached.
    """
    reading = read(NORMS[name], Options(**options))
    through = torch.eye(reading.numel, dtype=torch.float64)
    for spec in stages(NORMS[name].spec):
        numbers = labels(spec, reading).flatten()
        through = through @ (numbers[:, None] == numbers[None, :]).double()
    assert torch.equal(reached(name, reading), through > 0)


@pytest.mark.parametrize(
    ("wanted", "count", "size", "couples"),
    [((3,), 8, 3, False), ((2, 3), 4, 6, False), ((4, 2, 3), 1, 24, True)],
)
def test_eight_four_one(wanted: tuple[int, ...], count: int, size: int, couples: bool) -> None:
    """LayerNorm on (4, 2, 3); with all axes it is no longer a norm of each sample."""
    entry = NORMS["layer_norm"]
    options = Options(shape=(4, 2, 3), normalized_shape=wanted)
    found = share(stages(entry.spec)[0], read(entry, options))
    assert (found.count, found.size, found.couples_batch) == (count, size, couples)


@pytest.mark.parametrize(
    ("name", "options", "text"),
    [
        (
            "layer_norm",
            {"shape": (4, 2, 3)},
            "D (feature) shares; each B (batch), T (position) has statistics of its own",
        ),
        (
            "group_norm",
            {"shape": (2, 6, 4, 4), "groups": 3},
            "the 2 Cs of a group (feature), H and W (space) share; "
            "each group of channels of each B (batch) has statistics of its own",
        ),
        ("dynamic_tanh", {}, "none: every element is computed for itself"),
    ],
)
def test_in_words(name: str, options: dict[str, Any], text: str) -> None:
    """The sentence about the axes."""
    entry = NORMS[name]
    assert in_words(stages(entry.spec)[0], read(entry, Options(**options))) == text
