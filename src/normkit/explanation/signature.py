"""What a norm's entry says about how its layer is called: read off the spec and the signature."""

from __future__ import annotations

import inspect

from torch import nn

from normkit import layers
from normkit.spec import Composite, NormEntry, NormSpec


def stages(spec: NormSpec | Composite) -> Composite:
    """The specs that are applied in order; most norms have one."""
    return (spec,) if isinstance(spec, NormSpec) else spec


def layer_classes(entry: NormEntry) -> tuple[type[nn.Module], ...]:
    """The layers of a norm; several are for one, two and three axes of space."""
    return tuple(getattr(layers, name) for name in entry.layers)


def arguments(entry: NormEntry) -> dict[str, inspect.Parameter]:
    """The constructor's parameters, by name."""
    return dict(inspect.signature(layer_classes(entry)[0]).parameters)


def kind(entry: NormEntry) -> str:
    """How the layer reads its input: ``tokens`` (..., D), ``channels`` (B, C, ...), ``heads``."""
    over = {role for spec in stages(entry.spec) for role in spec.over}
    if "head" in over:
        return "heads"
    return "channels" if default_axis(entry) == 1 else "tokens"


def default_axis(entry: NormEntry) -> int:
    """The feature axis by the layer's own default."""
    named = arguments(entry).get("channel_axis")
    if named is not None:
        return int(named.default)
    return 1 if any("space" in spec.over for spec in stages(entry.spec)) else -1


def accepts(entry: NormEntry) -> frozenset[str]:
    """Names of the options that mean something for a norm.

    Example:
        >>> from normkit.spec import norm_entry
        >>> sorted(accepts(norm_entry("layer_norm")))
        ['normalized_shape', 'shape']
    """
    named = set(arguments(entry))
    found = {"shape"} | named & {"normalized_shape"}
    if {"groups", "num_groups"} & named or any(s.groups is not None for s in stages(entry.spec)):
        found.add("groups")
    if kind(entry) != "heads" and "normalized_shape" not in named:
        found.add("channel_axis")
    return frozenset(found)
