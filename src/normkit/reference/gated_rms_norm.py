"""Gated RMSNorm in plain torch: the truth that every other path is compared with.

Source: Dao and Gu 2024 (Mamba 2), arXiv:2405.21060; the gate after the norm as in Qwen3-Next.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from normkit.reference.gain import factor, gained, rounded
from normkit.reference.standardize import column_sum, standardize, standardize_backward
from normkit.spec.norm import GateFunction, GatePlace


@dataclass(frozen=True, kw_only=True)
class Gating:
    """The options of a gated RMSNorm.

    Attributes:
        eps: added to the mean square: a number, or one per row as (M, G, 1).
        function: a, what the gate goes through.
        place: ``after`` multiplies the gained value by a(gate), ``before`` multiplies x by it.
        zero_centred: the gain is 1 + weight.
        round_to: x_hat is rounded to it before the gain.
        round_gained_to: the gained value is rounded to it before the gate that comes after.
        gate_scale: (M, G, 1), powers of two that a(gate) is multiplied by to keep its product with
            x finite, where the gate is before; ``eps`` is then that of the scaled product.
    """

    eps: float | Tensor
    function: GateFunction = "silu"
    place: GatePlace = "after"
    zero_centred: bool = False
    round_to: torch.dtype | None = None
    round_gained_to: torch.dtype | None = None
    gate_scale: Tensor | None = None


def gated_rms_norm(
    x_MGK: Tensor,
    gate_MGK: Tensor,
    weight_GK: Tensor | None = None,
    bias_GK: Tensor | None = None,
    *,
    how: Gating,
) -> Tensor:
    """``y = (N(x) * gain + bias) * a(gate)``, or ``y = N(x * a(gate)) * gain + bias``.

    N divides by ``sqrt(mean(x^2) + eps)`` over the last axis, the features of one group. Computed
    in the dtype of x.
    """
    a, _ = activated(gate_MGK, how)
    before = how.place == "before"
    x_hat = standardize(x_MGK * a if before else x_MGK, center=False, eps=how.eps)
    y = gained(rounded(x_hat, how.round_to), weight_GK, bias_GK, how.zero_centred)
    return y if before else rounded(y, how.round_gained_to) * a


def gated_rms_norm_backward(
    dy_MGK: Tensor,
    x_MGK: Tensor,
    gate_MGK: Tensor,
    weight_GK: Tensor | None = None,
    bias_GK: Tensor | None = None,
    *,
    how: Gating,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients (dx_MGK, dgate_MGK, dweight_N, dbias_N), N = G K.

    Gate after: the norm sees ``dy * a``, and ``dgate = dy * (N(x) * gain + bias) * a'(gate)``.
    Gate before: with du the norm's gradient of ``u = x * a``, ``dx = du * a`` and
    ``dgate = du * x * a'(gate)``. Rounding passes gradients through unchanged.
    """
    a, slope = activated(gate_MGK, how)
    before = how.place == "before"
    d_gained = dy_MGK if before else dy_MGK * a
    gain = factor(weight_GK, zero_centred=how.zero_centred)
    g = d_gained if gain is None else d_gained * gain
    u = x_MGK * a if before else x_MGK
    du, x_hat = standardize_backward(g, u, center=False, eps=how.eps)
    x_hat = rounded(x_hat, how.round_to)
    dweight, dbias = column_sum((d_gained * x_hat).flatten(1)), column_sum(d_gained.flatten(1))
    if before:
        return du * a, du * x_MGK * slope, dweight, dbias
    y = rounded(gained(x_hat, weight_GK, bias_GK, how.zero_centred), how.round_gained_to)
    return du, dy_MGK * y * slope, dweight, dbias


def activated(gate: Tensor, how: Gating) -> tuple[Tensor, Tensor]:
    """a(gate) and its derivative: of ``silu(t) = t * sigmoid(t)``, or of ``sigmoid``."""
    s = torch.sigmoid(gate)
    scale = 1.0 if how.gate_scale is None else how.gate_scale
    if how.function == "sigmoid":
        return s * scale, s * (1 - s) * scale
    return gate * scale * s, s * (1 + gate * (1 - s)) * scale
