"""Formulas of explanations, run as they are written: the text itself is put to the test."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from normkit.explanation.reading import Reading
from normkit.explanation.sharing import labels
from normkit.spec import NormSpec


class Run:
    """Evaluates lines on one tensor; ``sum`` adds up the elements that share a statistic."""

    def __init__(self, spec: NormSpec, reading: Reading, known: Mapping[str, Any]) -> None:
        self.numbers = labels(spec, reading)
        width = math.prod(reading.feature_shape)
        first = torch.arange(width) < max(int(width * spec.fraction), 1)
        self.first = first.to(torch.float64)
        self.known: dict[str, Any] = {
            "sum": self.total,
            "first": self.part,
            "sqrt": lambda t: torch.as_tensor(t).sqrt(),
            "max": lambda t, e: torch.as_tensor(t).clamp(min=e),
            "tanh": torch.tanh,
            "erf": torch.erf,
            "exp": torch.exp,
            "silu": torch.nn.functional.silu,
            "sigmoid": torch.sigmoid,
            "pi": torch.tensor(math.pi, dtype=torch.float64),
            **known,
        }

    def total(self, t: Tensor) -> Tensor:
        """The sum over the elements of the same number, at each element."""
        t = t.expand(self.numbers.shape)
        sums = torch.zeros(int(self.numbers.max()) + 1, dtype=t.dtype)
        return sums.index_add(0, self.numbers.flatten(), t.flatten())[self.numbers]

    def part(self, t: Tensor) -> Tensor:
        """The measured elements; the others are 0."""
        return t * self.first

    def lines(self, found: Iterable[str]) -> dict[str, Any]:
        """Run assignments in order and return every name."""
        for line in found:
            name, _, text = line.partition(" = ")
            text = text.replace("^", "**").replace("x[first k]", "first(x)")
            text = text.replace("x_hat[first k]", "first(x_hat)")
            if "first(x)" in text and " - mean)" in text:
                text = text.replace("(first(x) - mean)", "first(x - mean)")
            self.known[name] = eval(text, {"__builtins__": {}}, self.known)
        return self.known


def along(reading: Reading, parameter: Tensor) -> Tensor:
    """A parameter of the feature axes, shaped so that it multiplies x."""
    if parameter.numel() == 1:
        return parameter.reshape(())
    shape = [axis.size if i in reading.features else 1 for i, axis in enumerate(reading.axes)]
    return parameter.reshape(shape)
