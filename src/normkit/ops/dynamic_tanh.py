"""dynamic_tanh: tanh of every element in place of a norm; forward and backward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from normkit import reference
from normkit.ops.registration import register
from normkit.ops.squash import SquashFormula


@dataclass(frozen=True)
class DynamicTanhFormula(SquashFormula):
    """DynamicTanh with weight and bias of the last ``axes`` axes."""

    tensors: ClassVar[tuple[str, ...]] = ("x", "alpha", "weight?", "bias?")

    value = staticmethod(reference.dynamic_tanh)
    derivative = staticmethod(reference.dynamic_tanh_backward)


dynamic_tanh = register("dynamic_tanh", DynamicTanhFormula)
