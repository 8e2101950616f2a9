"""add_rms_norm: RMSNorm of a residual sum, which is returned beside it."""

from __future__ import annotations

from dataclasses import dataclass

from normkit.ops.add_norm import AddNormFormula
from normkit.ops.registration import register
from normkit.ops.rms_norm import RMSNormFormula
from normkit.spec.norm import Rounding


@dataclass(frozen=True)
class AddRMSNormFormula(AddNormFormula):
    """h and its RMSNorm."""

    rounding: Rounding

    @property
    def normaliser(self) -> RMSNormFormula:
        """The norm alone."""
        how = (self.axes, self.eps, self.eps_place, self.zero_centred)
        return RMSNormFormula(*how, self.rounding, "input", None)


add_rms_norm = register("add_rms_norm", AddRMSNormFormula)
