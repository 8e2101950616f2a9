"""gated_rms_norm: RMSNorm with a gate after or before it, over groups of features."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from normkit import reference
from normkit.ops.formula import Gradients
from normkit.ops.kernel import wider
from normkit.ops.precision import Rows, in_range
from normkit.ops.registration import register
from normkit.ops.row_formula import RowFormula
from normkit.ops.row_kernel import bits, flags, only_needed
from normkit.ops.rows import summed_to
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

    def cpu_refuses(self, *tensors: Tensor | None) -> str | None:
        """Where another tensor is wider than x."""
        return wider(tensors)

    def cpu_forward(self, kernels: Any, *tensors: Any) -> tuple[Tensor, ...]:
        """(y,)."""
        x, gate, *parameters = tensors
        options = self._cpu_options(x, parameters[0])
        return (kernels.gated_rms_norm(x, gate.expand(x.shape), *parameters, *options),)

    def cpu_backward(self, kernels: Any, needed: Sequence[bool], *args: Any) -> Gradients:
        """(dx, dgate, dweight, dbias)."""
        dy, x, gate, *parameters = args
        broadcast = gate.shape != x.shape
        # A gradient that is to be summed further is not rounded before that.
        options = (*self._cpu_options(x, parameters[0]), bits((*needed[:4], broadcast)))
        tensors = (dy, x, gate.expand(x.shape), *parameters)
        found = only_needed(kernels.gated_rms_norm_backward(*tensors, *options), needed)
        dx, dgate, *rest = found
        if broadcast and dgate is not None:
            dgate = summed_to(dgate.double(), gate.shape).to(gate.dtype)
        return dx, dgate, *rest

    def _cpu_options(self, x: Tensor, weight: Tensor | None) -> tuple[Any, ...]:
        """The number of axes, eps, and options as bindings/norm.h and gated_norm.cpp read them."""
        before_gain = self.rounding == "before_gain"
        norm = flags(self.eps_place, self.zero_centred, round_before_gain=before_gain)
        rounds_gained = before_gain and _gained_dtype(x, weight) == x.dtype
        gate = bits((self.gate_place == "before", self.gate_function == "sigmoid", rounds_gained))
        return self.axes, self.eps, norm, gate | self.groups << 8

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
            gained = _gained_dtype(x_MN, weight)
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


def _gained_dtype(x: Tensor, weight: Tensor | None) -> torch.dtype:
    """What the gained value is rounded to before the gate that comes after."""
    return x.dtype if weight is None else torch.promote_types(x.dtype, weight.dtype)


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
