"""adaptive_rms_norm: RMSNorm with a scale and a shift that come from outside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from normkit.ops.adaptive import AdaptiveFormula
from normkit.ops.registration import register


@dataclass(frozen=True)
class AdaptiveRMSNormFormula(AdaptiveFormula):
    """Adaptive RMSNorm."""

    center: ClassVar[bool] = False
    cpu_op: ClassVar[str] = "adaptive_rms_norm"


adaptive_rms_norm = register("adaptive_rms_norm", AdaptiveRMSNormFormula)
