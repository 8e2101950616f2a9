"""rms_norm: RMSNorm over the last axes, forward and backward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from normkit import reference
from normkit.ops.formula import Gradients
from normkit.ops.kernel import wider
from normkit.ops.registration import register
from normkit.ops.row_formula import RowFormula
from normkit.ops.row_kernel import bits, flags, only_needed, refused_output
from normkit.spec.norm import OutputDtype, Rounding


@dataclass(frozen=True)
class RMSNormFormula(RowFormula):
    """RMSNorm over the last ``axes`` axes.

    ``measured`` is the number of leading features in the mean square, None for all.
    """

    zero_centred: bool
    rounding: Rounding
    output_dtype: OutputDtype
    measured: int | None

    def rows_forward(self, x_MN: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """y_MN in the compute dtype."""
        rows = self._rows(x_MN)
        return reference.rms_norm(
            rows.x_MN,
            rows.like(weight),
            rows.like(bias),
            eps=rows.eps,
            eps_place=self.eps_place,
            zero_centred=self.zero_centred,
            measured=self.measured,
            round_to=self._round_to(x_MN),
        )

    def rows_backward(
        self, dy_MN: Tensor, x_MN: Tensor, weight: Tensor | None, bias: Tensor | None
    ) -> Gradients:
        """(dx_MN, dweight_N, dbias_N) in the compute dtype."""
        rows = self._rows(x_MN)
        dx, dweight, dbias = reference.rms_norm_backward(
            dy_MN.to(rows.x_MN.dtype),
            rows.x_MN,
            rows.like(weight),
            eps=rows.eps,
            eps_place=self.eps_place,
            zero_centred=self.zero_centred,
            measured=self.measured,
            round_to=self._round_to(x_MN),
        )
        return rows.gradient(dx), dweight, dbias

    def output_dtype_of(self, x: Tensor, *rest: Tensor | None) -> torch.dtype:
        """Dtype of y."""
        weight = rest[0]
        if weight is None or self.output_dtype == "input":
            return x.dtype
        if self.output_dtype == "weight":
            return weight.dtype
        return torch.promote_types(x.dtype, weight.dtype)

    def cpu_refuses(self, *tensors: Any) -> str | None:
        """Where a parameter is wider than x, or y has a dtype of its own."""
        return wider(tensors) or refused_output(tensors[0].dtype, self.output_dtype_of(*tensors))

    def cpu_forward(self, kernels: Any, *tensors: Any) -> tuple[Tensor, ...]:
        """(y,)."""
        return (kernels.rms_norm(*tensors, self.axes, self.eps, self._flags(*tensors)),)

    def cpu_backward(self, kernels: Any, needed: Sequence[bool], *args: Any) -> Gradients:
        """(dx, dweight, dbias)."""
        options = (self.axes, self.eps, self._flags(*args[1:]), bits(needed))
        return only_needed(kernels.rms_norm_backward(*args, *options), needed)

    def _flags(self, *tensors: Any) -> int:
        return flags(
            self.eps_place,
            self.zero_centred,
            round_before_gain=self.rounding == "before_gain",
            float32_output=self.output_dtype_of(*tensors) != tensors[0].dtype,
            measured=self.measured,
        )

    def _round_to(self, x: Tensor) -> torch.dtype | None:
        return x.dtype if self.rounding == "before_gain" else None


rms_norm = register("rms_norm", RMSNormFormula)
