"""What DynamicTanh and DynamicErf share: a bounded function of every element, gain and bias."""

from __future__ import annotations

from torch import Tensor

from normkit.reference.gain import factor
from normkit.reference.standardize import column_sum, row_sum

# Beyond this tanh and erf are 1 or -1 and all their derivatives are 0, in float64 too.
_FLAT = 400.0


def argument(x_MN: Tensor, alpha_1: Tensor, shift_1: Tensor | None = None) -> Tensor:
    """``z = alpha * x + shift``, cut off where it no longer matters.

    One that overflowed would make derivatives of 0 * infinity.
    """
    z = alpha_1 * x_MN
    return (z if shift_1 is None else z + shift_1).clamp(-_FLAT, _FLAT)


def squash_backward(
    dy_MN: Tensor, x_MN: Tensor, weight_N: Tensor | None, f_MN: Tensor, slope_MN: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of ``y = weight * f(z) + bias``, given f(z) and its derivative, the slope.

    Returns:
        (u_MN, dalpha_1, dweight_N, dbias_N): u is the gradient of ``z = alpha * x + shift``, so
        ``dx = alpha * u`` and ``dalpha`` sums ``x * u`` over all elements.
    """
    gain = factor(weight_N, zero_centred=False)
    u = (dy_MN if gain is None else dy_MN * gain) * slope_MN
    return u, total(x_MN * u), column_sum(dy_MN * f_MN), column_sum(dy_MN)


def total(t_MN: Tensor) -> Tensor:
    """Sum of all elements as (1,), in the fixed order of the two sums that it consists of."""
    return row_sum(column_sum(t_MN))
