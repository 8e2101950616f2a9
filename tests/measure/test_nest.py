"""Nests of tensors: order, types, and what is left alone."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from normkit.measure.nest import map_tensors, tensors


class Pair(NamedTuple):
    first: Tensor
    second: int


def test_tensors_come_in_order_of_appearance() -> None:
    a, b, c = torch.ones(1), torch.ones(2), torch.ones(3)
    assert [t.numel() for t in tensors([a, {"x": (b, None), "y": {1, 2}}, "text", Pair(c, 4)])] == [
        1,
        2,
        3,
    ]
    assert tensors(None) == []


def test_map_keeps_types_and_everything_that_is_no_tensor() -> None:
    marker = object()
    nest = {"pair": Pair(torch.ones(1), 3), "list": [marker, (torch.ones(1),)], "n": None}
    mapped = map_tensors(lambda t: t + 1, nest)
    assert mapped["pair"] == Pair(torch.tensor([2.0]), 3)
    assert type(mapped["pair"]) is Pair
    assert mapped["list"][0] is marker
    assert mapped["list"][1][0].item() == 2
    assert mapped["n"] is None
    assert nest["pair"].first.item() == 1
