"""normkit: normalization in deep networks.

Layers that are exact and drop-in, their functional forms, the vocabulary that describes any norm,
and `normkit.compare`, which trains models on a text to say which norm and placement trains best.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from normkit import functional
from normkit._version import __version__
from normkit.layers import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    LayerNorm,
    MaskedBatchNorm,
    NoNorm,
    RMSNorm,
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
    from normkit.lab import compare

__all__ = [
    "NORMS",
    "PLACEMENTS",
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "LayerNorm",
    "MaskedBatchNorm",
    "NoNorm",
    "NormSpec",
    "PlacementSpec",
    "RMSNorm",
    "__version__",
    "compare",
    "functional",
    "norm_entry",
    "placement_entry",
    "validate",
]


def __getattr__(name: str) -> Any:
    """Load what needs more than torch when it is first used."""
    if name == "compare":
        from normkit.lab import compare

        return compare
    raise AttributeError(f"module 'normkit' has no attribute {name!r}")
