"""dropout_add_rms_norm: add_rms_norm with dropout on x."""

from __future__ import annotations

from dataclasses import dataclass

from normkit.ops.add_norm import Dropping
from normkit.ops.add_rms_norm import AddRMSNormFormula
from normkit.ops.registration import register


@dataclass(frozen=True)
class DropoutAddRMSNormFormula(Dropping, AddRMSNormFormula):
    """h with dropout on x, and its RMSNorm."""


dropout_add_rms_norm = register("dropout_add_rms_norm", DropoutAddRMSNormFormula)
