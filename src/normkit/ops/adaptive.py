"""What the ops of the adaptive norms share: scale and shift as rows beside x."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from normkit.ops.formula import Gradients
from normkit.ops.row_formula import RowFormula
from normkit.reference.adaptive import modulated, modulated_backward


@dataclass(frozen=True)
class AdaptiveFormula(RowFormula):
    """A norm over the last ``axes`` axes, then ``* (1 + scale) + shift``; y has the dtype of x.

    Attributes:
        center: whether the mean is subtracted.
    """

    tensors: ClassVar[tuple[str, ...]] = ("x", "scale", "shift?")
    row_tensors: ClassVar[tuple[str, ...]] = ("x", "scale", "shift")
    center: ClassVar[bool]

    def rows_forward(self, x_MN: Tensor, scale_MN: Tensor, shift_MN: Tensor | None) -> Tensor:
        """y_MN in the compute dtype."""
        rows = self._rows(x_MN)
        dtype = rows.x_MN.dtype
        shift_MN = None if shift_MN is None else shift_MN.to(dtype)
        return modulated(rows.x_MN, scale_MN.to(dtype), shift_MN, center=self.center, eps=rows.eps)

    def rows_backward(
        self, dy_MN: Tensor, x_MN: Tensor, scale_MN: Tensor, shift_MN: Tensor | None
    ) -> Gradients:
        """(dx_MN, dscale_MN, dshift_MN) in the compute dtype."""
        rows = self._rows(x_MN)
        dtype = rows.x_MN.dtype
        dy = dy_MN.to(dtype, copy=True)  # it is dshift, and may not be the tensor that came in
        dx, dscale, dshift = modulated_backward(
            dy, rows.x_MN, scale_MN.to(dtype), center=self.center, eps=rows.eps
        )
        return rows.gradient(dx), dscale, dshift
