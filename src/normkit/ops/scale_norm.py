"""scale_norm: a row divided by its length, times one number; forward and backward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from normkit import reference
from normkit.ops.formula import Gradients
from normkit.ops.registration import register
from normkit.ops.row_formula import RowFormula


@dataclass(frozen=True)
class ScaleNormFormula(RowFormula):
    """ScaleNorm over the last ``axes`` axes; y has the dtype of x."""

    tensors: ClassVar[tuple[str, ...]] = ("x", "weight?")

    zero_centred: bool

    def rows_forward(self, x_MN: Tensor, weight: Tensor | None) -> Tensor:
        """y_MN in the compute dtype."""
        rows = self._rows(x_MN)
        return reference.scale_norm(
            rows.x_MN,
            rows.like(weight),
            eps=rows.eps,
            eps_place=self.eps_place,
            zero_centred=self.zero_centred,
        )

    def rows_backward(self, dy_MN: Tensor, x_MN: Tensor, weight: Tensor | None) -> Gradients:
        """(dx_MN, dweight_1) in the compute dtype."""
        rows = self._rows(x_MN)
        dx, dweight = reference.scale_norm_backward(
            dy_MN.to(rows.x_MN.dtype),
            rows.x_MN,
            rows.like(weight),
            eps=rows.eps,
            eps_place=self.eps_place,
            zero_centred=self.zero_centred,
        )
        return rows.gradient(dx), dweight


scale_norm = register("scale_norm", ScaleNormFormula)
