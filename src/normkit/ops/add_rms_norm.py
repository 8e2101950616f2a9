"""add_rms_norm: RMSNorm of a residual sum, which is returned beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from normkit.ops.add_norm import AddNormFormula
from normkit.ops.registration import register
from normkit.ops.rms_norm import RMSNormFormula
from normkit.ops.row_kernel import flags
from normkit.spec.norm import Rounding


@dataclass(frozen=True)
class AddRMSNormFormula(AddNormFormula):
    """h and its RMSNorm."""

    cpu_op: ClassVar[str] = "add_rms_norm"

    rounding: Rounding

    @property
    def normaliser(self) -> RMSNormFormula:
        """The norm alone."""
        how = (self.axes, self.eps, self.eps_place, self.zero_centred)
        return RMSNormFormula(*how, self.rounding, "input", None)

    def _flags(self) -> int:
        before = self.rounding == "before_gain"
        return flags(self.eps_place, self.zero_centred, round_before_gain=before)


add_rms_norm = register("add_rms_norm", AddRMSNormFormula)
