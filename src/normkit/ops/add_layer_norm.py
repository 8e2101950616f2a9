"""add_layer_norm: LayerNorm of a residual sum, which is returned beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from normkit.ops.add_norm import AddNormFormula
from normkit.ops.layer_norm import LayerNormFormula
from normkit.ops.registration import register


@dataclass(frozen=True)
class AddLayerNormFormula(AddNormFormula):
    """h and its LayerNorm."""

    cpu_op: ClassVar[str] = "add_layer_norm"

    @property
    def normaliser(self) -> LayerNormFormula:
        """The norm alone."""
        return LayerNormFormula(self.axes, self.eps, self.eps_place, self.zero_centred)


add_layer_norm = register("add_layer_norm", AddLayerNormFormula)
