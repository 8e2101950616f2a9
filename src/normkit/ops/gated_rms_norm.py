"""gated_rms_norm: RMSNorm with a gate after or before it, over groups of features."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from normkit import reference
from normkit.ops.formula import Gradients
from normkit.ops.precision import Rows, in_range
from normkit.ops.registration import register
from normkit.ops.row_formula import RowFormula
from normkit.spec.norm import GateFunction, GatePlace, Rounding


@dataclass(frozen=True)
class GatedRMSNormFormula(RowFormula):
    """Gated RMSNorm over the last ``axes`` axes, whose features fall into ``groups``.

    M rows of G groups of K features. y has the dtype of x; the gate may have another.
    """

    tensors: ClassVar[tuple[str, ...]] = ("x", "gate", "weight?", "bias?")
    row_tensors: ClassVar[tuple[str, ...]] = ("x", "gate")

    gate_function: GateFunction
    gate_place: GatePlace
    groups: int
    zero_centred: bool
    rounding: Rounding

    def rows_forward(
        self, x_MN: Tensor, gate_MN: Tensor, weight: Tensor | None, bias: Tensor | None
    ) -> Tensor:
        """y_MN in the compute dtype."""
        rows, gate, how = self._ready(x_MN, gate_MN, weight)
        w, b = self._parameter(rows, weight), self._parameter(rows, bias)
        return reference.gated_rms_norm(rows.x_MN, gate, w, b, how=how).flatten(1)

    def rows_backward(
        self,
        dy_MN: Tensor,
        x_MN: Tensor,
        gate_MN: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
    ) -> Gradients:
        """(dx_MN, dgate_MN, dweight_N, dbias_N) in the compute dtype."""
        rows, gate, how = self._ready(x_MN, gate_MN, weight)
        dy = self._grouped(dy_MN.to(rows.x_MN.dtype))
        w, b = self._parameter(rows, weight), self._parameter(rows, bias)
        dx, dgate, dweight, dbias = reference.gated_rms_norm_backward(
            dy, rows.x_MN, gate, w, b, how=how
        )
        return rows.gradient(dx).flatten(1), dgate.flatten(1), dweight, dbias

    def _ready(
        self, x_MN: Tensor, gate_MN: Tensor, weight: Tensor | None
    ) -> tuple[Rows, Tensor, reference.Gating]:
        """x and the gate as (M, G, K) in the compute dtype, x in range, and the options."""
        rows = in_range(self._grouped(x_MN), self.eps)
        gate = self._grouped(gate_MN.to(rows.x_MN.dtype))
        how = reference.Gating(
            eps=rows.eps,
            function=self.gate_function,
            place=self.gate_place,
            zero_centred=self.zero_centred,
        )
        if self.rounding == "before_gain":
            gained = x_MN.dtype if weight is None else torch.promote_types(x_MN.dtype, weight.dtype)
            how = dataclasses.replace(how, round_to=x_MN.dtype, round_gained_to=gained)
        if self.gate_place == "before" and rows.x_MN.dtype in (x_MN.dtype, gate_MN.dtype):
            rows, how = _product_in_range(rows, gate, how)
        return rows, gate, how

    def _grouped(self, t: Tensor) -> Tensor:
        """The features, last, as groups of features."""
        return t.reshape(*t.shape[:-1], self.groups, t.shape[-1] // self.groups)

    def _parameter(self, rows: Rows, parameter: Tensor | None) -> Tensor | None:
        """A weight or bias as (G, K) in the compute dtype."""
        return (
            None if parameter is None else self._grouped(parameter.reshape(-1).to(rows.x_MN.dtype))
        )


def _product_in_range(
    rows: Rows, gate: Tensor, how: reference.Gating
) -> tuple[Rows, reference.Gating]:
    """Scale rows and gate by powers of two until the square of their product is finite.

    Needed where one of them has the compute dtype, so that nothing is left above it.
    """
    a, _ = reference.activated(gate, how)
    a_scale = in_range(a.detach(), 0.0).scale_M1
    if a_scale is None:  # no features
        return rows, how
    scale = in_range(rows.x_MN.detach() * (a.detach() * a_scale), 0.0).scale_M1
    assert scale is not None  # as above: rows of the compute dtype are always scaled
    eps = rows.eps * scale.square() * a_scale.square()
    if not isinstance(rows.eps, float) or rows.eps > 0:
        eps = eps.clamp(min=torch.finfo(eps.dtype).tiny)  # 0 / 0 otherwise, see in_range
    root = scale.sqrt()  # half of it for each of the two: all of it could underflow
    both = root if rows.scale_M1 is None else rows.scale_M1 * root
    how = dataclasses.replace(how, eps=eps, gate_scale=a_scale * root)
    return Rows(rows.x_MN * root, eps, both), how


gated_rms_norm = register("gated_rms_norm", GatedRMSNormFormula)
