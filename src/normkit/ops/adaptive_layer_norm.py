"""adaptive_layer_norm: LayerNorm with a scale and a shift that come from outside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from normkit.ops.adaptive import AdaptiveFormula
from normkit.ops.registration import register


@dataclass(frozen=True)
class AdaptiveLayerNormFormula(AdaptiveFormula):
    """Adaptive LayerNorm."""

    center: ClassVar[bool] = True
    cpu_op: ClassVar[str] = "adaptive_layer_norm"


adaptive_layer_norm = register("adaptive_layer_norm", AdaptiveLayerNormFormula)
