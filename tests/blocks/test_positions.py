"""Position numbers and the two kinds of position vectors."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from normkit.blocks import CausalLM, TransformerConfig, position_numbers, sinusoidal_table


@pytest.mark.parametrize(("length", "width"), [(1, 1), (7, 6), (50, 9), (3, 128)])
def test_sinusoidal_formula(length: int, width: int) -> None:
    """Each element against the paper's formula in Python's own arithmetic."""
    table = sinusoidal_table(length, width)
    assert table.shape == (length, width)
    for t in range(length):
        for feature in range(width):
            pair = feature // 2
            angle = t / 10000 ** (2 * pair / width)
            want = math.sin(angle) if feature == 2 * pair else math.cos(angle)
            assert table[t, feature].item() == pytest.approx(want, abs=1e-7)


def test_sinusoidal_mean_square() -> None:
    """Each row has mean square 1/2."""
    square = sinusoidal_table(100, 32).square().mean(1)
    torch.testing.assert_close(square, torch.full((100,), 0.5))


def test_numbers_without_mask() -> None:
    """All rows share 0 .. T-1."""
    assert position_numbers(torch.zeros(2, 4), None).tolist() == [0, 1, 2, 3]


@given(st.lists(st.booleans(), min_size=1, max_size=12))
def test_numbers_skip_pads(row: list[bool]) -> None:
    """Real tokens count 0, 1, 2, ...; pads take no number and stay inside the table."""
    numbers = position_numbers(torch.zeros(1, len(row)), torch.tensor([row]))[0].tolist()
    real = [number for number, valid in zip(numbers, row, strict=True) if valid]
    assert real == list(range(sum(row)))
    assert all(0 <= number < len(row) for number in numbers)


@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
def test_order_matters(positions: str) -> None:
    """Without position vectors the last token could not tell the order of those before it."""
    config = TransformerConfig(
        vocabulary=9, width=8, heads=2, depth=1, max_length=5, positions=positions
    )
    model = CausalLM(config).eval()
    forward = model(torch.tensor([[1, 2, 3, 4, 5]]))[0, -1]
    swapped = model(torch.tensor([[1, 3, 2, 4, 5]]))[0, -1]
    assert (forward - swapped).abs().max() > 1e-4


def test_sinusoidal_positions_are_not_trained() -> None:
    """The table is a buffer of the state_dict and no parameter."""
    model = CausalLM(TransformerConfig(vocabulary=9, width=8, heads=2, positions="sinusoidal"))
    assert "transformer.positions.table" in model.state_dict()
    assert "transformer.positions.table" not in dict(model.named_parameters())
