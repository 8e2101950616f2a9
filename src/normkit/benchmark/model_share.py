"""Which share of a training step a model spends inside its norms, before and after a swap."""

from __future__ import annotations

import copy
import importlib.util
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from normkit.benchmark.norm_clock import NormClock, NormTime
from normkit.benchmark.norm_swap import is_norm, swap_norms
from normkit.errors import DataError, sentence
from normkit.measure.nest import tensors
from normkit.measure.time import Timing, quantile
from normkit.measure.time_ratio import Ratio, time_ratio

WHO = "bench"
SHAPE_OF_BUILD = "build() must return (model, inputs) or (model, inputs, step)"
Step = Callable[[nn.Module, Any], object]


@dataclass(frozen=True, kw_only=True)
class Half:
    """A model before or after.

    Attributes:
        step: times of whole steps, without a clock inside.
        norms: time inside each norm, a step, in steps with a clock inside.
    """

    step: Timing
    norms: Sequence[NormTime]

    @property
    def norms_us(self) -> float:
        """Time inside all norms."""
        return sum(norm.forward_us + norm.backward_us for norm in self.norms)

    @property
    def share(self) -> float:
        """Part of the step that norms take."""
        return self.norms_us / self.step.p50

    @property
    def ceiling(self) -> float:
        """How many times faster the step would be if its norms took no time (Amdahl)."""
        return 1 / max(1 - self.share, 1e-9)


@dataclass(frozen=True, kw_only=True)
class ModelReport:
    """Both halves, from interleaved steps.

    Attributes:
        swapped: names of the norms that were replaced; ``left`` of those that were not.
        speedup: of the whole step.
    """

    before: Half
    after: Half
    swapped: Sequence[str]
    left: Sequence[str]
    speedup: Ratio


def time_model(place: str, *, steps: int = 7) -> ModelReport:
    """Time the training step of a model as it is, and with its norms replaced by ours.

    Args:
        place: ``FILE.py:build``; ``build()`` returns a model and its inputs (a tensor, a tuple, or
            a dict of keyword arguments), and maybe ``step(model, inputs)``. Without one a step is
            forward, backward and forgetting the gradients; the loss is the output's ``loss``, or
            the mean square of its first tensor.
        steps: timed steps of each kind.

    Raises:
        DataError: there is no such file or function, or it returns something else.
    """
    model, inputs, step = load(place)
    after = copy.deepcopy(model)
    swapped = swap_norms(after)
    names = [name for name, module in model.named_modules() if is_norm(module)]
    if not names:
        came = f"{type(model).__name__} has none"
        raise DataError(sentence(WHO, "the model must have norms", came))
    halves = _time((model, after), inputs, step, steps)
    return ModelReport(
        before=halves[0],
        after=halves[1],
        swapped=swapped,
        left=[name for name in names if name not in swapped],
        speedup=time_ratio(halves[0].step, halves[1].step),
    )


def _time(models: Sequence[nn.Module], inputs: Any, step: Step, steps: int) -> list[Half]:
    """Steps with and without a clock, of both models, in an order drawn for each round."""
    kinds = [(number, clocked) for number in range(len(models)) for clocked in (False, True)]
    whole: list[list[float]] = [[] for _ in models]
    inside: list[list[Mapping[str, NormTime]]] = [[] for _ in models]
    draw = random.Random(0)
    for turn in range(steps + 1):  # the first warms up
        for number, clocked in draw.sample(kinds, len(kinds)):
            if clocked:
                with NormClock(models[number], is_norm) as clock:
                    step(models[number], inputs)
                found = clock.times()
            start = time.perf_counter_ns()
            if not clocked:
                step(models[number], inputs)
            spent_us = (time.perf_counter_ns() - start) / 1000
            if turn and clocked:
                inside[number].append(found)
            elif turn:
                whole[number].append(spent_us)
    return [
        Half(step=Timing(times_us=tuple(times)), norms=_median(found))
        for times, found in zip(whole, inside, strict=True)
    ]


def _median(found: Sequence[Mapping[str, NormTime]]) -> list[NormTime]:
    return [
        NormTime(
            name=name,
            kind=first.kind,
            forward_us=quantile([times[name].forward_us for times in found], 0.5),
            backward_us=quantile([times[name].backward_us for times in found], 0.5),
        )
        for name, first in found[0].items()
    ]


def load(place: str) -> tuple[nn.Module, Any, Step]:
    """Run ``build()`` of a file.

    Raises:
        DataError: there is no such file or function, or it returns something else.
    """
    path, _, name = place.rpartition(":")
    file = Path(path)
    if not path or not file.is_file():
        fix = "Try --model FILE.py:build"
        rule = "model must be a Python file and a function, with a colon between"
        came = f"there is no file {path!r}" if path else f"model is {place!r}"
        raise DataError(sentence(WHO, rule, came, fix))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise DataError(sentence(WHO, "model must be a Python file", f"it is {path!r}"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    build = getattr(module, name, None)
    if not callable(build):
        raise DataError(sentence(WHO, f"{file.name} must have a function {name}", "it has none"))
    return checked(build())


def checked(built: Any) -> tuple[nn.Module, Any, Step]:
    """Take what ``build()`` returned apart."""
    if not isinstance(built, tuple) or len(built) not in (2, 3):
        raise DataError(sentence(WHO, SHAPE_OF_BUILD, f"it returned {type(built).__name__}"))
    if not isinstance(built[0], nn.Module):
        came = f"its first value is {type(built[0]).__name__}"
        raise DataError(sentence(WHO, SHAPE_OF_BUILD, came))
    return built[0], built[1], built[2] if len(built) == 3 else train_step


def train_step(model: nn.Module, inputs: Any) -> None:
    """Forward, backward, forget the gradients."""
    if isinstance(inputs, Mapping):
        output = model(**inputs)
    else:
        output = model(*inputs) if isinstance(inputs, tuple | list) else model(inputs)
    _loss(output).backward()  # type: ignore[no-untyped-call]
    model.zero_grad(set_to_none=True)


def _loss(output: Any) -> Tensor:
    loss = getattr(output, "loss", None)
    if isinstance(loss, Tensor):
        return loss
    first = next(t for t in tensors(output) if t.requires_grad)
    return first.float().square().mean() if first.dtype != torch.float64 else first.square().mean()
