"""Real data of any shape that every Python carries: the characters of its own help topics.

A place of the tensor holds one character of a topic (a sample is a topic), and its features tell
how that character is used in the whole text: ``log(1 + count)`` of what follows it, the commonest
characters first, one place on, then two places on, and so forth. An image is the page itself:
lines down, columns across, and a character's features as its channels.
"""

from __future__ import annotations

import math
from functools import cache

import torch
from torch import Tensor

_TEXT_LENGTH = 100_000  # enough for steady counts


def characters(samples: int, places: tuple[int, ...]) -> Tensor:
    """Places of the text in ranks of characters, (samples, *places).

    One axis of places is a line of running text; two are the lines and columns of a page; more
    are pages after pages. Past the end of a topic stand spaces.
    """
    topics, order = _topics(), alphabet()
    ranks = {character: rank for rank, character in enumerate(order)}
    columns = places[-1] if places else 1
    lines = math.prod(places[:-1]) if places else 1
    found = torch.full((samples, lines, columns), ranks[" "], dtype=torch.int64)
    for sample in range(samples):
        topic = topics[sample % len(topics)]
        page = topic.split("\n") if len(places) > 1 else [topic.replace("\n", " ")]
        for line, text in enumerate(page[:lines]):
            row = [ranks[character] for character in text[:columns]]
            found[sample, line, : len(row)] = torch.tensor(row, dtype=torch.int64)
    return found.view(samples, *places)


def features(ranks: Tensor, width: int, *, back: bool = False) -> Tensor:
    """Features of characters, (*ranks.shape, width); ``back`` counts what stands before."""
    return _usage(width, back)[ranks]


@cache
def alphabet() -> tuple[str, ...]:
    """The characters of the text, the commonest first."""
    text = "\n".join(_topics())
    return tuple(sorted(set(text), key=lambda character: (-text.count(character), character)))


@cache
def _topics() -> tuple[str, ...]:
    from pydoc_data.topics import topics

    return tuple(topics[name].lstrip("\n") for name in sorted(topics))


@cache
def _usage(width: int, back: bool) -> Tensor:
    """(characters, width), float32: how often each other character stands a distance away."""
    order = alphabet()
    ranks = {character: rank for rank, character in enumerate(order)}
    text = "\n".join(_topics())[:_TEXT_LENGTH]
    codes = torch.tensor([ranks[character] for character in text])
    count = len(order)
    tables = []
    for distance in range(1, 1 + -(-width // count)):
        first, then = codes[:-distance], codes[distance:]
        if back:
            first, then = then, first
        pairs = torch.bincount(first * count + then, minlength=count * count)
        tables.append(pairs.view(count, count))
    return torch.cat(tables, dim=1)[:, :width].float().log1p()
