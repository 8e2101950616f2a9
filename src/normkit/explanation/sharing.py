"""Which elements of a tensor share one set of statistics."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from normkit.explanation.numbers import counted, listed
from normkit.explanation.reading import Axis, Reading
from normkit.spec import NormSpec

_FEATURE_ROLES = frozenset({"feature", "group", "head"})
_PLACE_ROLES = frozenset({"position", "space"})


@dataclass(frozen=True, kw_only=True)
class Sharing:
    """The statistics of one spec on one shape.

    Attributes:
        axes: numbers of the axes along which elements share; a grouped axis is among them.
        grouped: the feature axis is shared within a group only.
        count: how many sets of statistics there are; 0 for a norm that takes none.
        size: elements behind each of them, n.
        couples_batch: one statistic sees several samples.
        spans_places: one statistic sees several positions of a sample.
    """

    axes: tuple[int, ...]
    grouped: bool
    count: int
    size: int
    couples_batch: bool
    spans_places: bool


def share(spec: NormSpec, reading: Reading) -> Sharing:
    """Find what is shared.

    Example:
        >>> from normkit.explanation.reading import Options, read
        >>> from normkit.spec import norm_entry
        >>> entry = norm_entry("layer_norm")
        >>> for wanted in ((3,), (2, 3), (4, 2, 3)):
        ...     options = Options(shape=(4, 2, 3), normalized_shape=wanted)
        ...     print(share(entry.spec, read(entry, options)).count)
        8
        4
        1
    """
    axes = shared_axes(spec, reading)
    grouped = bool(_FEATURE_ROLES & set(spec.over)) and reading.groups > 1
    size = math.prod(reading.axes[axis].size for axis in axes)
    if grouped:
        size //= reading.groups
    return Sharing(
        axes=axes,
        grouped=grouped,
        count=reading.numel // size if spec.over else 0,
        size=size,
        couples_batch=any(reading.axes[axis].role == "batch" for axis in axes),
        spans_places=any(reading.axes[axis].role in _PLACE_ROLES for axis in axes),
    )


def shared_axes(spec: NormSpec, reading: Reading) -> tuple[int, ...]:
    """Numbers of the axes along which elements share a statistic."""
    found = set(reading.features) if _FEATURE_ROLES & set(spec.over) else set()
    # What a sequence calls positions is space in an image: a norm over one is over the other.
    if _PLACE_ROLES & set(spec.over):
        found |= set(reading.places)
    if "batch" in spec.over:
        found |= {i for i, axis in enumerate(reading.axes) if axis.role == "batch"}
    return tuple(sorted(found))


def labels(spec: NormSpec, reading: Reading) -> Tensor:
    """Number the statistics: int64 of the shape of x, equal where elements share.

    A norm without statistics numbers every element for itself.

    Example:
        >>> from normkit.explanation.reading import Options, read
        >>> from normkit.spec import norm_entry
        >>> entry = norm_entry("layer_norm")
        >>> labels(entry.spec, read(entry, Options(shape=(2, 3)))).tolist()
        [[0, 0, 0], [1, 1, 1]]
    """
    sharing = share(spec, reading)
    number = torch.zeros(reading.shape, dtype=torch.int64)
    for axis, one in enumerate(reading.axes):
        index, sizes = torch.arange(one.size), one.size
        if axis in sharing.axes:
            if not (sharing.grouped and axis in reading.features):
                continue
            index, sizes = index // (one.size // reading.groups), reading.groups
        along = [-1 if i == axis else 1 for i in range(len(reading.axes))]
        number = number * sizes + index.view(along)
    return number


def in_words(spec: NormSpec, reading: Reading) -> str:
    """Say which elements share.

    Example:
        >>> from normkit.explanation.reading import Options, read
        >>> from normkit.spec import norm_entry
        >>> entry = norm_entry("batch_norm")
        >>> in_words(entry.spec, read(entry, Options(shape=(8, 3, 4, 4))))
        'B (batch), H and W (space) share; each C (feature) has statistics of its own'
    """
    sharing = share(spec, reading)
    if not spec.over:
        return "none: every element is computed for itself"
    shared = []
    for i in sharing.axes:
        grouped = sharing.grouped and i in reading.features
        shared.append(_within(reading, i) if grouped else reading.axes[i].letter)
    own = [reading.axes[i] for i in range(len(reading.axes)) if i not in sharing.axes]
    together = _named([reading.axes[i] for i in sharing.axes], shared)
    verb = "share" if len(shared) > 1 or sharing.grouped else "shares"
    if not own and not sharing.grouped:
        return f"{together} {verb}: all elements of the tensor"
    each = [*(["group of channels"] if sharing.grouped else []), *([_named(own)] if own else [])]
    has = "has statistics of its own"
    return f"{together} {verb}; each {' of each '.join(each)} {has}"


def _within(reading: Reading, axis: int) -> str:
    one = reading.axes[axis]
    return f"the {counted(one.size // reading.groups, one.letter)} of a group"


def _named(axes: list[Axis], words: list[str] | None = None) -> str:
    """Letters with their roles, neighbours of one role together."""
    words = [axis.letter for axis in axes] if words is None else words
    parts: list[str] = []
    run: list[str] = []
    for place, (axis, word) in enumerate(zip(axes, words, strict=True)):
        run.append(word)
        if place + 1 == len(axes) or axes[place + 1].role != axis.role:
            parts.append(f"{listed(run)} ({axis.role})")
            run = []
    return ", ".join(parts)
