"""scale_norm: a row divided by its length, times one number; forward and backward."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from normkit import reference
from normkit.ops.formula import Gradients
from normkit.ops.registration import register
from normkit.ops.row_formula import RowFormula
from normkit.ops.row_kernel import bits, flags
from normkit.reference.scale_norm import eps_of_rms, gain_of_rms
from normkit.reference.standardize import row_sum


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

    def cpu_refuses(self, *tensors: Tensor | None) -> str | None:
        """Never: the weight is one number, which may be wider than x."""
        return None

    def cpu_forward(self, kernels: Any, *tensors: Any) -> tuple[Tensor, ...]:
        """(y,): an RMSNorm whose gain is one number."""
        x, weight = tensors
        return (kernels.rms_norm(x, self._gain(x, weight), None, *self._as_rms(x)),)

    def cpu_backward(self, kernels: Any, needed: Sequence[bool], *args: Any) -> Gradients:
        """(dx, dweight)."""
        dy, x, weight = args
        options = (*self._as_rms(x), bits(needed[:2]))
        found = kernels.rms_norm_backward(dy, x, self._gain(x, weight), None, *options)
        dx = found[0] if needed[0] else None
        if weight is None or not needed[1]:
            return dx, None
        dgain = row_sum(found[1].double())
        dweight = dgain if self.zero_centred else dgain / math.sqrt(self._width(x))
        return dx, dweight.to(weight.dtype).reshape(weight.shape)

    def _as_rms(self, x: Tensor) -> tuple[Any, ...]:
        """The options of the RMSNorm."""
        eps = eps_of_rms(self.eps, self._width(x), self.eps_place)
        return self.axes, eps, flags(self.eps_place, zero_centred=False)

    def _gain(self, x: Tensor, weight: Tensor | None) -> Tensor:
        """Its gain, once for each feature."""
        width = self._width(x)
        one = gain_of_rms(None if weight is None else weight.double(), width, self.zero_centred)
        dtype = torch.promote_types(x.dtype, torch.float32)
        return torch.as_tensor(one, dtype=dtype).expand(width).contiguous()

    def _width(self, x: Tensor) -> int:
        return math.prod(x.shape[x.dim() - self.axes :])


scale_norm = register("scale_norm", ScaleNormFormula)
