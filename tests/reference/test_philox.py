"""Philox4x32-10: published answers, the same in Python's integers, and what a mask must be."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from normkit.reference import dropout_factor, philox_4x32, random_words

CPU = torch.device("cpu")
WORD = 2**32
# Random123's kat_vectors: counter, key, answer.
KNOWN = [
    (
        (0, 0, 0, 0),
        (0, 0),
        (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8),
    ),
    (
        (0xFFFFFFFF,) * 4,
        (0xFFFFFFFF,) * 2,
        (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
    ),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


def in_integers(seed: int, index: int) -> int:
    """The word of an element, with integers that know no overflow."""
    seed %= 2**64
    key = [seed % WORD, seed // WORD]
    c = [index // 4 % WORD, index // 4 // WORD, 0, 0]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b // WORD ^ c[1] ^ key[0], b % WORD, a // WORD ^ c[3] ^ key[1], a % WORD]
        key = [(key[0] + 0x9E3779B9) % WORD, (key[1] + 0xBB67AE85) % WORD]
    return c[index % 4]


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN)
def test_known_answers(
    counter: tuple[int, ...], key: tuple[int, ...], answer: tuple[int, ...]
) -> None:
    words = tuple(map(torch.tensor, counter)), tuple(map(torch.tensor, key))
    assert tuple(int(word) for word in philox_4x32(*words)) == answer  # type: ignore[arg-type]


@given(
    seed=st.integers(-(2**63), 2**63 - 1),
    first=st.integers(0, 20) | st.integers(2**33 - 9, 2**33 + 9) | st.integers(2**40, 2**41),
    count=st.integers(0, 9),
)
def test_words_of_elements(seed: int, first: int, count: int) -> None:
    got = random_words(torch.tensor(seed), first, count, CPU)
    assert got.tolist() == [in_integers(seed, index) for index in range(first, first + count)]


def words(seed: int, count: int = 40000) -> Tensor:
    return random_words(torch.tensor(seed), 0, count, CPU)


@pytest.mark.parametrize("p", [0.01, 0.1, 0.5, 0.9])
def test_how_many_are_kept(p: float) -> None:
    factor = dropout_factor(words(7), p, torch.float64)
    assert set(factor.tolist()) == {0.0, 1 / (1 - p)}
    rate, spread = (factor > 0).double().mean().item(), (p * (1 - p) / 40000) ** 0.5
    assert abs(rate - (1 - p)) < 4 * spread
    for lane in range(4):
        rate = (factor[lane::4] > 0).double().mean().item()
        assert abs(rate - (1 - p)) < 4 * 2 * spread


def test_the_ends_of_p() -> None:
    every = torch.tensor([0, 1, 2**31, 2**32 - 1])
    assert dropout_factor(every, 0.0, torch.float64).tolist() == [1.0] * 4
    assert dropout_factor(every, 1.0, torch.float64).tolist() == [0.0] * 4
    assert dropout_factor(every, 0.5, torch.float64).tolist() == [0.0, 0.0, 2.0, 2.0]


def test_masks_of_other_seeds_and_places_are_independent() -> None:
    # Neighbouring seeds, seeds that differ in their upper half, and neighbours within a mask.
    seeds = [0, 1, 2, 2**32, 2**32 + 1, -1]
    masks = [(words(seed) >= 2**31).double() * 2 - 1 for seed in seeds]
    pairs = [(a, b) for i, a in enumerate(masks) for b in masks[:i]]
    pairs += [(masks[0][:-shift], masks[0][shift:]) for shift in (1, 2, 3, 4, 8, 1024)]
    for a, b in pairs:
        assert abs((a * b).sum().item()) < 4 * len(a) ** 0.5  # a random walk
