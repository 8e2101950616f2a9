"""Philox4x32-10 in plain torch: the random word of an element follows from a seed and its index.

Source: Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3".
"""

from __future__ import annotations

import torch
from torch import Tensor

Words = tuple[Tensor, Tensor, Tensor, Tensor]

_WORD = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10


def philox_4x32(counter: Words, key: tuple[Tensor, Tensor]) -> Words:
    """Four random words for a counter of four words and a key of two: ten rounds.

    A word is an int64 between 0 and 2^32 - 1. All tensors broadcast to each other.
    """
    a, b, c, d = counter
    first, second = key
    for _ in range(_ROUNDS):
        high_a, low_a = _product(a, _MULTIPLIERS[0])
        high_c, low_c = _product(c, _MULTIPLIERS[1])
        a, b, c, d = high_c ^ b ^ first, low_c, high_a ^ d ^ second, low_a
        first, second = (first + _KEY_STEPS[0]) & _WORD, (second + _KEY_STEPS[1]) & _WORD
    return a, b, c, d


def random_words(seed: Tensor, first: int, count: int, device: torch.device) -> Tensor:
    """The words of the elements ``first`` to ``first + count - 1``, as int64 (count,).

    Element i has lane ``i % 4`` of the counter ``i // 4``; the 64 bits of the seed are the key.

    Args:
        seed: int64, of shape ().
        first, count: which elements.
        device: where the words are made, whatever device the seed is on.
    """
    blocks = torch.arange(first // 4, (first + count + 3) // 4, device=device)
    zero = torch.zeros_like(blocks)
    key = seed.to(device)
    lanes = philox_4x32(
        (blocks & _WORD, blocks >> 32, zero, zero), (key & _WORD, (key >> 32) & _WORD)
    )
    return torch.stack(lanes, -1).flatten()[first % 4 : first % 4 + count]


def dropout_factor(words: Tensor, p: float, dtype: torch.dtype) -> Tensor:
    """What elements with these words are multiplied by: 0 with probability p, else 1 / (1 - p).

    An element is kept where its word is at least ``round(p * 2^32)``.
    """
    kept = words >= round(p * 2**32)
    return kept.to(dtype) * (1 / (1 - p) if p < 1 else 0.0)


def _product(word: Tensor, constant: int) -> tuple[Tensor, Tensor]:
    """(high, low) word of a product, which as 64 bits wraps around the sign and loses nothing."""
    product = word * constant
    return (product >> 32) & _WORD, product & _WORD
