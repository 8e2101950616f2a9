"""dropout_add_layer_norm: add_layer_norm with dropout on x."""

from __future__ import annotations

from dataclasses import dataclass

from normkit.ops.add_layer_norm import AddLayerNormFormula
from normkit.ops.add_norm import Dropping
from normkit.ops.registration import register


@dataclass(frozen=True)
class DropoutAddLayerNormFormula(Dropping, AddLayerNormFormula):
    """h with dropout on x, and its LayerNorm."""


dropout_add_layer_norm = register("dropout_add_layer_norm", DropoutAddLayerNormFormula)
