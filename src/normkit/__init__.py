"""normkit: normalization in deep networks.

Layers that are exact and drop-in, their functional forms, the vocabulary that describes any norm,
and `normkit.compare`, which trains models on a text to say which norm and placement trains best.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from normkit import functional
from normkit._version import __version__
from normkit.layers import (
    AdaptiveLayerNorm,
    AdaptiveRMSNorm,
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    ChannelLayerNorm,
    DynamicErf,
    DynamicTanh,
    GatedRMSNorm,
    GroupNorm,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
    LayerNorm,
    LayerNormGRU,
    LayerNormGRUCell,
    LayerNormLSTM,
    LayerNormLSTMCell,
    MaskedBatchNorm,
    NoNorm,
    NormLinear,
    PowerNorm,
    QKNorm,
    RMSNorm,
    ScaleNorm,
    convert_names,
    valid,
)
from normkit.spec import (
    NORMS,
    PLACEMENTS,
    NormSpec,
    PlacementSpec,
    norm_entry,
    placement_entry,
    validate,
)

if TYPE_CHECKING:
    from normkit.explanation import explain
    from normkit.lab import compare

__all__ = [
    "NORMS",
    "PLACEMENTS",
    "AdaptiveLayerNorm",
    "AdaptiveRMSNorm",
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "ChannelLayerNorm",
    "DynamicErf",
    "DynamicTanh",
    "GatedRMSNorm",
    "GroupNorm",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LayerNorm",
    "LayerNormGRU",
    "LayerNormGRUCell",
    "LayerNormLSTM",
    "LayerNormLSTMCell",
    "MaskedBatchNorm",
    "NoNorm",
    "NormLinear",
    "NormSpec",
    "PlacementSpec",
    "PowerNorm",
    "QKNorm",
    "RMSNorm",
    "ScaleNorm",
    "__version__",
    "compare",
    "convert_names",
    "explain",
    "functional",
    "norm_entry",
    "placement_entry",
    "valid",
    "validate",
]


def __getattr__(name: str) -> Any:
    """Load what needs more than torch, or is seldom needed, when it is first used."""
    if name == "explain":
        from normkit.explanation import explain

        return explain
    if name == "compare":
        from normkit.lab import compare

        return compare
    raise AttributeError(f"module 'normkit' has no attribute {name!r}")
