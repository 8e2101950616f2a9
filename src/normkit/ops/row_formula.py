"""What norms over the last axes share: tensors as rows, pieces of rows, sums over pieces."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from normkit.ops.formula import Formula, Gradients
from normkit.ops.precision import Rows, in_range
from normkit.ops.rows import in_order, joined, pieces, token_rows
from normkit.spec.norm import EpsPlace


@dataclass(frozen=True)
class RowFormula(Formula):
    """A norm over the last ``axes`` axes; y is contiguous."""

    axes: int
    eps: float
    eps_place: EpsPlace
    zero_centred: bool

    def rows_forward(self, x_MN: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """y_MN in the compute dtype."""
        raise NotImplementedError

    def rows_backward(self, dy_MN: Tensor, x_MN: Tensor, weight: Tensor | None) -> Gradients:
        """(dx_MN, dweight_N, dbias_N) in the compute dtype."""
        raise NotImplementedError

    def output_dtype_of(self, x: Tensor, weight: Tensor | None) -> torch.dtype:
        """Dtype of y."""
        return x.dtype

    def forward(
        self, x: Tensor, weight: Tensor | None, bias: Tensor | None, *extras: Tensor | None
    ) -> tuple[Tensor, ...]:
        """(y,)."""
        x_MN, dtype = token_rows(x, self.axes), self.output_dtype_of(x, weight)
        y = [self.rows_forward(x_MN[part], weight, bias).to(dtype) for part in pieces(x_MN)]
        return (joined(y).reshape(x.shape),)

    def backward(
        self, dy: Tensor, x: Tensor, weight: Tensor | None, *extras: Tensor | None
    ) -> Gradients:
        """(dx, dweight, dbias)."""
        dy_MN, x_MN = token_rows(dy, self.axes), token_rows(x, self.axes)
        parts = [self.rows_backward(dy_MN[p], x_MN[p], weight) for p in pieces(x_MN)]
        dx, dweight, dbias = zip(*parts, strict=True)
        shape = self.parameter_shape(x)
        dx_MN = joined([part.to(x.dtype) for part in dx])
        return (
            dx_MN.reshape(x.shape),
            in_order(dweight).reshape(shape),
            in_order(dbias).reshape(shape),
        )

    def fake(self, x: Tensor, weight: Tensor | None) -> tuple[Tensor, ...]:
        """(y,)."""
        return (x.new_empty(x.shape, dtype=self.output_dtype_of(x, weight)),)

    def parameter_shape(self, x: Tensor) -> torch.Size:
        """The normalised axes."""
        return x.shape[x.dim() - self.axes :]

    def _rows(self, x_MN: Tensor) -> Rows:
        return in_range(x_MN, self.eps, self.eps_place)
