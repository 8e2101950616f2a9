"""A worked number: the real layer on real data, each statistic before and after."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from normkit.errors import ShapeError, StateError
from normkit.explanation import data
from normkit.explanation.layer import build, call
from normkit.explanation.reading import Axis, Reading
from normkit.explanation.sharing import labels, shared_axes
from normkit.explanation.signature import stages
from normkit.spec import NormEntry, NormSpec

ROWS = 8
_MOST_ELEMENTS = 2**16
_MOST_FEATURES = 2**14


@dataclass(frozen=True, kw_only=True)
class Row:
    """One statistic's elements: where they are, and their spread before and after the layer."""

    where: str
    mean_before: float
    std_before: float
    rms_before: float
    mean_after: float
    std_after: float
    rms_after: float


@dataclass(frozen=True, kw_only=True)
class Worked:
    """The example.

    Attributes:
        source: what the data are.
        layer: the layer that ran, as it prints itself.
        shape: of the tensor; smaller than asked for where that is large.
        rows: the first statistics; ``left`` more are not shown.
        refusal: the sentence of a layer that does not run on this shape; then there are no rows.
    """

    source: str
    layer: str
    shape: tuple[int, ...]
    rows: tuple[Row, ...] = ()
    left: int = 0
    refusal: str = ""


def work(entry: NormEntry, reading: Reading) -> Worked:
    """Run the layer, as it starts, in training mode."""
    small = cut(reading)
    ranks = data.characters(*_places(small))
    x, second = _tensor(small, ranks), _tensor(small, ranks, back=True)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        layer = build(entry, small)
        name = f"{type(layer).__name__}({layer.extra_repr()})"
        told = Worked(source=_source(small), layer=name, shape=small.shape)
        try:
            y = call(layer, entry, small, x, second)
        except (ShapeError, StateError) as error:
            return replace(told, refusal=str(error))
    spec = _shown(stages(entry.spec)[-1])
    numbers = labels(spec, small)
    count = int(numbers.max()) + 1
    rows = [
        _row(_where(spec, small, ranks, numbers, label), x[numbers == label], y[numbers == label])
        for label in range(min(count, ROWS))
    ]
    return replace(told, rows=tuple(rows), left=count - len(rows))


def cut(reading: Reading) -> Reading:
    """A tensor that is quickly computed: fewer samples and places, the same features."""
    axes = list(reading.axes)
    for number in reading.features:
        if len(reading.features) == 1 and axes[number].size > _MOST_FEATURES:
            each = max(1, _MOST_FEATURES // reading.groups)
            axes[number] = replace(axes[number], size=each * reading.groups)
    free = [i for i in range(len(axes)) if i not in reading.features]
    while free and math.prod(axis.size for axis in axes) > _MOST_ELEMENTS:
        largest = max(free, key=lambda i: axes[i].size)
        if axes[largest].size == 1:
            break
        axes[largest] = replace(axes[largest], size=axes[largest].size // 2)
    return replace(reading, axes=tuple(axes))


def _shown(spec: NormSpec) -> NormSpec:
    """A norm without statistics is looked at token by token."""
    return spec if spec.over else replace(spec, over=("feature",))


def _feature_axes(reading: Reading) -> list[int]:
    return [i for i, axis in enumerate(reading.axes) if axis.role in ("feature", "head")]


def _places(reading: Reading) -> tuple[int, tuple[int, ...]]:
    """Number of samples, and sizes of the axes along which characters stand."""
    axes = reading.axes
    samples = math.prod(axis.size for axis in axes if axis.role == "batch")
    return samples, tuple(axis.size for axis in axes if axis.role in ("position", "space"))


def _tensor(reading: Reading, ranks: Tensor, *, back: bool = False) -> Tensor:
    """Features of the characters in the order of the axes."""
    inside = _feature_axes(reading)
    width = math.prod(reading.axes[i].size for i in inside)
    x = data.features(ranks, width, back=back)
    sizes = [axis.size for i, axis in enumerate(reading.axes) if i not in inside]
    if reading.axes[0].role != "batch":
        sizes = [1, *sizes]
    x = x.view(*sizes, *(reading.axes[i].size for i in inside))
    if reading.axes[0].role != "batch":
        x = x[0]
    order = [i for i in range(len(reading.axes)) if i not in inside] + inside
    return x.permute([order.index(i) for i in range(len(order))]).contiguous()


def _source(reading: Reading) -> str:
    places = len(_places(reading)[1])
    one = "a position is a character" if places == 1 else "a place is a character of the page"
    if not places:
        one = "a sample is its first character"
    return (
        "Python's help topics (pydoc_data.topics), one a sample; "
        f"{one}, its features log(1 + how often the commonest characters follow it)"
    )


def _where(spec: NormSpec, reading: Reading, ranks: Tensor, numbers: Tensor, label: int) -> str:
    """The place of a statistic: its own axes, its group, and its character where it has one."""
    first = (numbers == label).nonzero()[0].tolist()
    shared = shared_axes(spec, reading)
    parts = [
        f"{a.letter}{i}"
        for n, (a, i) in enumerate(zip(reading.axes, first, strict=True))
        if n not in shared
    ]
    if reading.groups > 1 and set(reading.features) & set(shared):
        axis = reading.features[0]
        parts.append(f"group {first[axis] // (reading.axes[axis].size // reading.groups)}")
    if not any(_is_place(reading.axes[n]) for n in shared):
        at = [i for axis, i in zip(reading.axes, first, strict=True) if _is_place(axis)]
        at = at if reading.axes[0].role == "batch" else [0, *at]
        parts.append(repr(data.alphabet()[int(ranks[tuple(at)])]))
    return " ".join(parts) or "all"


def _is_place(axis: Axis) -> bool:
    return axis.role in ("batch", "position", "space")


def _row(where: str, before: Tensor, after: Tensor) -> Row:
    x, y = before.double(), after.double()
    return Row(
        where=where,
        mean_before=x.mean().item(),
        std_before=x.std(unbiased=False).item(),
        rms_before=x.square().mean().sqrt().item(),
        mean_after=y.mean().item(),
        std_after=y.std(unbiased=False).item(),
        rms_after=y.square().mean().sqrt().item(),
    )
