"""dynamic_erf: erf of every element in place of a norm; forward and backward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from normkit import reference
from normkit.ops.registration import register
from normkit.ops.squash import SquashFormula


@dataclass(frozen=True)
class DynamicErfFormula(SquashFormula):
    """DynamicErf with weight and bias of the last ``axes`` axes."""

    tensors: ClassVar[tuple[str, ...]] = ("x", "alpha", "shift?", "weight?", "bias?")

    value = staticmethod(reference.dynamic_erf)
    derivative = staticmethod(reference.dynamic_erf_backward)


dynamic_erf = register("dynamic_erf", DynamicErfFormula)
