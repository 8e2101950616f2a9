"""rms_norm: RMSNorm over the last axes, forward and backward."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from normkit import reference
from normkit.ops.formula import Formula, Gradients
from normkit.ops.precision import Rows, in_range
from normkit.ops.registration import register
from normkit.ops.rows import token_rows
from normkit.spec.norm import EpsPlace, OutputDtype, Rounding


@dataclass(frozen=True)
class RMSNormFormula(Formula):
    """RMSNorm over the last ``axes`` axes; y is contiguous.

    ``measured`` is the number of leading features in the mean square, None for all.
    """

    axes: int
    eps: float
    eps_place: EpsPlace
    zero_centred: bool
    rounding: Rounding
    output_dtype: OutputDtype
    measured: int | None

    def forward(
        self, x: Tensor, weight: Tensor | None, bias: Tensor | None, *extras: Tensor | None
    ) -> tuple[Tensor, ...]:
        """(y,)."""
        rows = self._rows(x)
        y = reference.rms_norm(
            rows.x_MN,
            rows.like(weight),
            rows.like(bias),
            eps=rows.eps,
            eps_place=self.eps_place,
            zero_centred=self.zero_centred,
            measured=self.measured,
            round_to=self._round_to(x),
        )
        return (y.to(self._output_dtype(x, weight)).reshape(x.shape),)

    def backward(
        self, dy: Tensor, x: Tensor, weight: Tensor | None, *extras: Tensor | None
    ) -> Gradients:
        """(dx, dweight, dbias)."""
        rows = self._rows(x)
        dx, dweight, dbias = reference.rms_norm_backward(
            token_rows(dy, self.axes).to(rows.x_MN.dtype),
            rows.x_MN,
            rows.like(weight),
            eps=rows.eps,
            eps_place=self.eps_place,
            zero_centred=self.zero_centred,
            measured=self.measured,
            round_to=self._round_to(x),
        )
        shape = self.parameter_shape(x)
        return rows.gradient(dx).reshape(x.shape), dweight.reshape(shape), dbias.reshape(shape)

    def fake(self, x: Tensor, weight: Tensor | None) -> tuple[Tensor, ...]:
        """(y,)."""
        return (x.new_empty(x.shape, dtype=self._output_dtype(x, weight)),)

    def parameter_shape(self, x: Tensor) -> torch.Size:
        """The normalised axes."""
        return x.shape[x.dim() - self.axes :]

    def _rows(self, x: Tensor) -> Rows:
        return in_range(token_rows(x, self.axes), self.eps, self.eps_place)

    def _round_to(self, x: Tensor) -> torch.dtype | None:
        return x.dtype if self.rounding == "before_gain" else None

    def _output_dtype(self, x: Tensor, weight: Tensor | None) -> torch.dtype:
        if weight is None or self.output_dtype == "input":
            return x.dtype
        if self.output_dtype == "weight":
            return weight.dtype
        return torch.promote_types(x.dtype, weight.dtype)


rms_norm = register("rms_norm", RMSNormFormula)
