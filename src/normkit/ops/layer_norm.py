"""layer_norm: LayerNorm over the last axes, forward and backward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from normkit import reference
from normkit.ops.formula import Gradients
from normkit.ops.kernel import wider
from normkit.ops.registration import register
from normkit.ops.row_formula import RowFormula
from normkit.ops.row_kernel import bits, flags, only_needed


@dataclass(frozen=True)
class LayerNormFormula(RowFormula):
    """LayerNorm over the last ``axes`` axes; y has the dtype of x."""

    center: ClassVar[bool] = True

    zero_centred: bool

    def rows_forward(self, x_MN: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """y_MN in the compute dtype."""
        rows = self._rows(x_MN)
        return reference.layer_norm(
            rows.x_MN,
            rows.like(weight),
            rows.like(bias),
            eps=rows.eps,
            eps_place=self.eps_place,
            zero_centred=self.zero_centred,
        )

    def rows_backward(
        self, dy_MN: Tensor, x_MN: Tensor, weight: Tensor | None, bias: Tensor | None
    ) -> Gradients:
        """(dx_MN, dweight_N, dbias_N) in the compute dtype."""
        rows = self._rows(x_MN)
        dx, dweight, dbias = reference.layer_norm_backward(
            dy_MN.to(rows.x_MN.dtype),
            rows.x_MN,
            rows.like(weight),
            eps=rows.eps,
            eps_place=self.eps_place,
            zero_centred=self.zero_centred,
        )
        return rows.gradient(dx), dweight, dbias

    def cpu_refuses(self, *tensors: Tensor | None) -> str | None:
        """Where a parameter is wider than x."""
        return wider(tensors)

    def cpu_forward(self, kernels: Any, *tensors: Tensor | None) -> tuple[Tensor, ...]:
        """(y,)."""
        return (kernels.layer_norm(*tensors, self.axes, self.eps, self._flags()),)

    def cpu_backward(self, kernels: Any, needed: Sequence[bool], *args: Any) -> Gradients:
        """(dx, dweight, dbias)."""
        options = (self.axes, self.eps, self._flags(), bits(needed))
        return only_needed(kernels.layer_norm_backward(*args, *options), needed)

    def _flags(self) -> int:
        return flags(self.eps_place, self.zero_centred)


layer_norm = register("layer_norm", LayerNormFormula)
