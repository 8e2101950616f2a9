"""The real layer of a norm, built for a shape and called on a tensor."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from normkit.explanation.reading import Reading
from normkit.explanation.signature import arguments, default_axis, layer_classes
from normkit.spec import NormEntry

# A condition is a vector of any size; a small one keeps the projection of a wide layer small.
_CONDITION_WIDTH = 8


@dataclass(frozen=True, kw_only=True)
class State:
    """A parameter or a buffer of a layer: its name and shape."""

    name: str
    shape: tuple[int, ...]


def layer_class(entry: NormEntry, reading: Reading) -> type[nn.Module]:
    """The layer for this many axes of space."""
    classes = layer_classes(entry)
    return classes[max(0, min(len(reading.places), len(classes)) - 1)]


def build(entry: NormEntry, reading: Reading) -> nn.Module:
    """Build the layer: each argument that its constructor requires is read off the shape."""
    width = math.prod(reading.feature_shape)
    known = {
        "normalized_shape": reading.feature_shape,
        "channel_axis": reading.features[0] - len(reading.axes),
        "condition_width": min(width, _CONDITION_WIDTH),
        **dict.fromkeys(("num_features", "num_channels", "width", "head_width"), width),
        **dict.fromkeys(("num_groups", "groups"), reading.groups),
    }
    named = arguments(entry)
    takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in named.values())
    given = {} if takes_any else {name: value for name, value in known.items() if name in named}
    return layer_class(entry, reading)(**given)


def call(layer: nn.Module, entry: NormEntry, reading: Reading, x: Tensor, second: Tensor) -> Tensor:
    """Run the layer; ``second`` is what a gate, a condition or the keys are made of."""
    moves = "channel_axis" not in arguments(entry) and default_axis(entry) == 1
    axis = reading.features[0]
    if moves and axis != 1:
        x = x.movedim(axis, 1)
    named = inspect.signature(layer.forward).parameters
    more = {
        "gate": second,
        "k": second,
        "condition": condition(reading, second),
    }
    found = layer(x, *(value for name, value in more.items() if name in named))
    y: Tensor = found[0] if isinstance(found, tuple) else found
    return y.movedim(1, axis) if moves and axis != 1 else y


def condition(reading: Reading, second: Tensor) -> Tensor:
    """One vector per sample, its first numbers; one in all where the batch is normalised too."""
    samples = 1 if 0 in reading.features else len(second)
    vectors = second.reshape(samples, -1)[
        :, : min(math.prod(reading.feature_shape), _CONDITION_WIDTH)
    ]
    return vectors[0] if 0 in reading.features else vectors


def takes_mask(entry: NormEntry, reading: Reading) -> bool:
    """Whether the layer accepts ``valid``."""
    return "valid" in inspect.signature(layer_class(entry, reading).forward).parameters


def state(entry: NormEntry, reading: Reading) -> tuple[tuple[State, ...], tuple[State, ...]]:
    """The parameters and the buffers of the layer, without memory for their values."""
    with torch.device("meta"):
        layer = build(entry, reading)
    return (
        tuple(State(name=name, shape=tuple(p.shape)) for name, p in layer.named_parameters()),
        tuple(State(name=name, shape=tuple(b.shape)) for name, b in layer.named_buffers()),
    )
