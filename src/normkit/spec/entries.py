"""What the registry holds: one named norm, one named placement."""

from __future__ import annotations

from dataclasses import dataclass

from normkit.spec.norm import Composite, NormSpec
from normkit.spec.placement import PlacementSpec


@dataclass(frozen=True, kw_only=True)
class NormEntry:
    """One named norm: its spec at the layer's defaults and where it stands in the house.

    Attributes:
        name: the one name that it has in every folder.
        title: for people.
        spec: the function that it computes with default options.
        layers: class names in ``normkit.layers``.
        op: name of its op; None for a norm that computes nothing.
        kernel: name of its compiled kernel; None where the op runs torch operations.
        source: where it was published.
    """

    name: str
    title: str
    spec: NormSpec | Composite
    layers: tuple[str, ...]
    op: str | None
    kernel: str | None = None
    source: str


@dataclass(frozen=True, kw_only=True)
class PlacementEntry:
    """One named placement and where it was published."""

    name: str
    title: str
    spec: PlacementSpec
    source: str
