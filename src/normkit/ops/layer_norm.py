"""layer_norm: LayerNorm over the last axes, forward and backward."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from normkit import reference
from normkit.ops.formula import Formula, Gradients
from normkit.ops.precision import Rows, in_range
from normkit.ops.registration import register
from normkit.ops.rows import token_rows
from normkit.spec.norm import EpsPlace


@dataclass(frozen=True)
class LayerNormFormula(Formula):
    """LayerNorm over the last ``axes`` axes; y is contiguous and has the dtype of x."""

    axes: int
    eps: float
    eps_place: EpsPlace
    zero_centred: bool

    def forward(
        self, x: Tensor, weight: Tensor | None, bias: Tensor | None, *extras: Tensor | None
    ) -> tuple[Tensor, ...]:
        """(y,)."""
        rows = self._rows(x)
        y = reference.layer_norm(
            rows.x_MN,
            rows.like(weight),
            rows.like(bias),
            eps=rows.eps,
            eps_place=self.eps_place,
            zero_centred=self.zero_centred,
        )
        return (y.to(x.dtype).reshape(x.shape),)

    def backward(
        self, dy: Tensor, x: Tensor, weight: Tensor | None, *extras: Tensor | None
    ) -> Gradients:
        """(dx, dweight, dbias)."""
        rows = self._rows(x)
        dx, dweight, dbias = reference.layer_norm_backward(
            token_rows(dy, self.axes).to(rows.x_MN.dtype),
            rows.x_MN,
            rows.like(weight),
            eps=rows.eps,
            eps_place=self.eps_place,
            zero_centred=self.zero_centred,
        )
        shape = self.parameter_shape(x)
        return rows.gradient(dx).reshape(x.shape), dweight.reshape(shape), dbias.reshape(shape)

    def fake(self, x: Tensor, weight: Tensor | None) -> tuple[Tensor, ...]:
        """(y,)."""
        return (x.new_empty(x.shape),)

    def parameter_shape(self, x: Tensor) -> torch.Size:
        """The normalised axes."""
        return x.shape[x.dim() - self.axes :]

    def _rows(self, x: Tensor) -> Rows:
        return in_range(token_rows(x, self.axes), self.eps, self.eps_place)


layer_norm = register("layer_norm", LayerNormFormula)
