"""The explanation of a norm on a shape."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from normkit.explanation import cost as costs
from normkit.explanation.behaviour import Behaviour, behaviour
from normkit.explanation.cost import Cost, cost
from normkit.explanation.explanation import Explanation
from normkit.explanation.formula import LETTERS, Formula, formula, values
from normkit.explanation.layer import State, layer_class, state, takes_mask
from normkit.explanation.numbers import counted, shape_text
from normkit.explanation.picture import TensorPicture, lines, picture, records, title
from normkit.explanation.reading import Options, Reading, read
from normkit.explanation.sections import Fact, Section, columns, plain_lines
from normkit.explanation.sharing import Sharing, in_words, share
from normkit.explanation.signature import stages
from normkit.explanation.worked import Row, Worked, work
from normkit.spec import NormEntry, NormSpec


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One spec of a norm on the shape: most norms have one, a composite has several in order."""

    spec: NormSpec
    symbols: Formula
    numbers: Formula
    sharing: Sharing
    sharing_in_words: str
    picture: TensorPicture


@dataclass(frozen=True, kw_only=True)
class NormExplanation(Explanation):
    """What a norm does to a tensor of one shape."""

    entry: NormEntry
    layer: str
    reading: Reading
    stages: tuple[Stage, ...]
    parameters: tuple[State, ...]
    buffers: tuple[State, ...]
    cost: Cost
    behaviour: Behaviour
    worked: Worked

    @property
    def heading(self) -> str:
        """Name, source, shape."""
        shape = " x ".join(map(str, self.reading.shape))
        return f"{self.title} ({self.source})\non x = {self.reading.letters} = {shape}"

    def sections(self) -> Iterator[Section]:
        """All there is to say, in the order in which it is read."""
        for number, stage in enumerate(self.stages, 1):
            which = f", step {number} of {len(self.stages)}" if len(self.stages) > 1 else ""
            yield from _formula_sections(stage, which)
        yield Section(title="statistics", facts=tuple(self._statistics()))
        for stage in self.stages:
            yield Section(
                title=f"picture: {stage.picture.title}",
                facts=(("", stage.picture.caption),),
                lines=lines(stage.picture),
            )
        yield Section(title="parameters", facts=tuple(self._states()))
        yield Section(title="behaviour", facts=tuple(self._behaviour()))
        yield Section(title="cost, with N the elements of x", facts=tuple(self._cost()))
        yield self._example()

    def summary(self) -> dict[str, str]:
        """One short text for each question, for a table beside another norm."""
        forward, backward = costs.in_words(self.cost, self.reading)
        numbers = [line for stage in self.stages for line in stage.numbers.train]
        return {
            "formula": "\n".join(numbers),
            "read as": f"{self.reading.letters} = {shape_text(self.reading.shape)}",
            "axes": "; then ".join(stage.sharing_in_words for stage in self.stages),
            "statistics": "; then ".join(map(_count, self.stages)),
            "train": self.behaviour.train,
            "eval": self.behaviour.evaluate,
            "batch of one": self.behaviour.batch_of_one,
            "padding": self.behaviour.padding,
            "causal use": self.behaviour.causal,
            "distributed": self.behaviour.distributed,
            "parameters": _shapes(self.parameters),
            "buffers": _shapes(self.buffers),
            "forward": forward,
            "backward": backward,
        }

    def data(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "kind": "norm",
            "name": self.name,
            "title": self.title,
            "source": self.source,
            "layer": self.layer,
            "shape": list(self.reading.shape),
            "axes": [asdict(axis) for axis in self.reading.axes],
            "groups": self.reading.groups,
            "steps": [_stage_data(stage) for stage in self.stages],
            "parameters": [asdict(one) for one in self.parameters],
            "buffers": [asdict(one) for one in self.buffers],
            "cost_in_x": asdict(self.cost),
            "behaviour": asdict(self.behaviour),
            "example": asdict(self.worked),
        }

    def drawings(self) -> list[dict[str, Any]]:
        """One grid of cells for each spec."""
        return [
            {
                "kind": "tensor",
                "title": stage.picture.title,
                "caption": stage.picture.caption,
                "cells": records(stage.picture),
            }
            for stage in self.stages
        ]

    def _statistics(self) -> Iterator[Fact]:
        for number, stage in enumerate(self.stages, 1):
            which = f" {number}" if len(self.stages) > 1 else ""
            yield f"shared{which}", stage.sharing_in_words
            yield f"how many{which}", _count(stage)
            if stage.sharing.couples_batch:
                yield (
                    "",
                    "The batch is among the shared axes: a sample's output depends on the others.",
                )

    def _states(self) -> Iterator[Fact]:
        yield "layer", self.layer
        for one in self.parameters:
            yield one.name, shape_text(one.shape)
        if not self.parameters:
            yield "", "no parameters"
        for one in self.buffers:
            yield one.name, f"{shape_text(one.shape)}, a buffer"

    def _behaviour(self) -> Iterator[Fact]:
        told = self.behaviour
        yield "train", told.train
        yield "eval", told.evaluate
        yield "batch of one", told.batch_of_one
        yield "padding", told.padding
        yield "causal use", told.causal
        yield "distributed", told.distributed

    def _cost(self) -> Iterator[Fact]:
        forward, backward = costs.in_words(self.cost, self.reading)
        yield "forward", forward
        yield "backward", backward
        twice = any(costs.reads_twice(stage.spec, stage.sharing) for stage in self.stages)
        if twice:
            yield "", "x is read once to measure it and once more to normalise it."

    def _example(self) -> Section:
        worked = self.worked
        facts = [("data", worked.source), ("layer", worked.layer)]
        if worked.shape != self.reading.shape:
            facts.append(("shape", f"{shape_text(worked.shape)}, a part of the tensor"))
        if worked.refusal:
            facts.append(("refused", worked.refusal))
            return Section(title="example", facts=tuple(facts))
        names = ["mean", "std"] if self.stages[-1].spec.center else ["mean", "std", "rms"]
        rows = [["", *(f"{name} in" for name in names), *(f"{name} out" for name in names)]]
        rows += [[row.where, *_cells(row, names)] for row in worked.rows]
        written = columns(rows)
        if worked.left:
            written.append(f"and {worked.left:,} more")
        return Section(
            title="example: the real layer on real data",
            facts=tuple(facts),
            lines=plain_lines(written),
        )


def explain_norm(entry: NormEntry, options: Options) -> NormExplanation:
    """Explain a norm on a shape; see :func:`normkit.explain`."""
    reading = read(entry, options)
    parameters, buffers = state(entry, reading)
    mask = takes_mask(entry, reading)
    return NormExplanation(
        name=entry.name,
        title=entry.title,
        source=entry.source,
        entry=entry,
        layer=layer_class(entry, reading).__name__,
        reading=reading,
        stages=tuple(_stage(spec, reading) for spec in stages(entry.spec)),
        parameters=parameters,
        buffers=buffers,
        cost=cost(entry.spec, reading),
        behaviour=behaviour(entry.spec, reading, takes_mask=mask),
        worked=work(entry, reading),
    )


def _stage(spec: NormSpec, reading: Reading) -> Stage:
    if spec.over == ("feature",) and reading.groups > 1:
        spec = replace(spec, over=("group",), groups=reading.groups)
    sharing = share(spec, reading)
    return Stage(
        spec=spec,
        symbols=formula(spec, LETTERS),
        numbers=formula(spec, values(spec, sharing.size)),
        sharing=sharing,
        sharing_in_words=in_words(spec, reading),
        picture=picture(spec, reading, title(spec, sharing)),
    )


def _formula_sections(stage: Stage, which: str) -> Iterator[Section]:
    symbols, numbers = stage.symbols, stage.numbers
    second = tuple(("", text) for text in _second_inputs(stage.spec))
    yield Section(title=f"formula{which}", facts=second, lines=plain_lines(symbols.train))
    for name, found in (
        ("in evaluation", symbols.evaluate),
        ("running statistics", symbols.update),
    ):
        if found:
            yield Section(title=f"formula{which}, {name}", lines=plain_lines(found))
    if numbers.train != symbols.train:
        told = (*numbers.train, *numbers.evaluate, *numbers.update)
        yield Section(title=f"the same with its numbers{which}", lines=plain_lines(told))
    yield Section(title=f"gradient{which}", lines=plain_lines(symbols.gradient))


def _second_inputs(spec: NormSpec) -> Iterator[str]:
    if spec.gain.conditional:
        yield "scale and shift are computed from a second input, the condition"
    if spec.gain.gate != "none":
        yield "gate is a second input of the shape of x"


def _count(stage: Stage) -> str:
    if not stage.spec.over:
        return "none"
    size = counted(stage.sharing.size, "element")
    return f"{counted(stage.sharing.count, 'statistic')} of {size} each"


def _shapes(found: tuple[State, ...]) -> str:
    return "; ".join(f"{one.name} {shape_text(one.shape)}" for one in found) or "none"


def _cells(row: Row, names: list[str]) -> list[str]:
    return [
        f"{round(getattr(row, f'{name}_{when}'), 4) + 0.0:.4f}"
        for when in ("before", "after")
        for name in names
    ]


def _stage_data(stage: Stage) -> dict[str, Any]:
    return {
        "spec": asdict(stage.spec),
        "formula": asdict(stage.symbols),
        "formula_with_numbers": asdict(stage.numbers),
        "shared_axes": list(stage.sharing.axes),
        "statistics": stage.sharing.count,
        "elements_per_statistic": stage.sharing.size,
        "couples_batch": stage.sharing.couples_batch,
        "in_words": stage.sharing_in_words,
        "picture": {
            "shape": list(stage.picture.shape),
            "reduced": stage.picture.reduced,
            "panels": [[asdict(panel) for panel in band] for band in stage.picture.bands],
        },
    }
