"""The vocabulary: what a norm computes, where it stands, and the names of those that exist."""

from normkit.spec.entries import NormEntry, PlacementEntry
from normkit.spec.norm import (
    Composite,
    GainSpec,
    NormSpec,
    PrecisionSpec,
    StatsSpec,
)
from normkit.spec.placement import InitGain, PlacementSpec, ResidualScale
from normkit.spec.registry import (
    FUSED_OPS,
    NORMS,
    PLACEMENTS,
    norm_entry,
    placement_entry,
)
from normkit.spec.shape import as_shape, validate

__all__ = [
    "FUSED_OPS",
    "NORMS",
    "PLACEMENTS",
    "Composite",
    "GainSpec",
    "InitGain",
    "NormEntry",
    "NormSpec",
    "PlacementEntry",
    "PlacementSpec",
    "PrecisionSpec",
    "ResidualScale",
    "StatsSpec",
    "as_shape",
    "norm_entry",
    "placement_entry",
    "validate",
]
