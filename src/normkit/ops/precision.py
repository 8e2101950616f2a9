"""In which dtype a norm computes, and how rows that would overflow it are brought into range."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from normkit.spec.norm import EpsPlace

# Float64 is missing on Apple's GPUs; float32 with the scaling below is right there too.
_WITHOUT_FLOAT64 = ("mps",)

# Rows above the first number are multiplied by the second: sums of squares stay finite, and the
# squares of a row that was scaled stay far from underflow.
_SCALING = {torch.float64: (2.0**480, 2.0**-600), torch.float32: (2.0**50, 2.0**-80)}


def compute_dtype(x: Tensor) -> torch.dtype:
    """The dtype that statistics and products are computed in: float64 where the device has it.

    Float32 and half inputs then square without overflow, and means far above the spread keep
    their digits.
    """
    return torch.float32 if x.device.type in _WITHOUT_FLOAT64 else torch.float64


@dataclass(frozen=True)
class Rows:
    """Rows in the compute dtype that are safe to square, and what was done to make them so.

    A norm keeps its value when x is scaled by s and eps with it (s^2 inside the root, s outside).

    Attributes:
        x_MN: the rows.
        eps: a number, or one per row as (M, 1).
        scale_M1: x_MN is (x - offset) times this; None where nothing was done.
        offset_M1: not 0 for constant rows alone; None where nothing was done.
    """

    x_MN: Tensor
    eps: float | Tensor
    scale_M1: Tensor | None = None
    offset_M1: Tensor | None = None

    def like(self, parameter: Tensor | None) -> Tensor | None:
        """A weight or bias as one axis in the compute dtype; None stays None."""
        return None if parameter is None else parameter.reshape(-1).to(self.x_MN.dtype)

    def gradient(self, dx_MN: Tensor) -> Tensor:
        """Gradient of the rows as they came."""
        return dx_MN if self.scale_M1 is None else dx_MN * self.scale_M1

    def statistics(self, mean_M: Tensor, var_M: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of the rows as they came."""
        if self.scale_M1 is None or self.offset_M1 is None:
            return mean_M, var_M
        scale, offset = self.scale_M1.squeeze(-1), self.offset_M1.squeeze(-1)
        return mean_M / scale + offset, var_M / scale / scale  # scale^2 would underflow


def in_range(
    x_MN: Tensor, eps: float, eps_place: EpsPlace = "inside", *, center: bool = False
) -> Rows:
    """Widen rows to the compute dtype, into the range in which it can square them.

    Where the input's dtype leaves the compute dtype no headroom, rows that could overflow are
    scaled by a power of two, which is exact. A constant row of a norm that centres is brought to 0
    instead: there eps decides alone, and scaled it would be lost.
    """
    wide_MN = x_MN.to(compute_dtype(x_MN)).contiguous()
    headroom = torch.finfo(x_MN.dtype).bits < torch.finfo(wide_MN.dtype).bits
    if headroom or not wide_MN.shape[-1]:
        return Rows(wide_MN, eps)
    limit, factor = _SCALING[wide_MN.dtype]
    size = wide_MN.detach()
    offset = torch.zeros_like(size[:, :1])
    if center:
        first = size[:, :1]
        constant = (size == first).all(-1, keepdim=True) & (first.abs() > limit)
        offset = torch.where(constant, first, offset)
    around = wide_MN - offset
    too_large = around.detach().abs().amax(-1, keepdim=True) > limit
    one = wide_MN.new_ones(())  # a Python 1.0 would make the result float32, and the factor 0
    scale = torch.where(too_large, one * factor, one)
    scaled_eps = eps * (scale.square() if eps_place == "inside" else scale)
    if eps > 0:  # where it vanishes beside such a row, zeros still must not be divided by 0
        scaled_eps = scaled_eps.clamp(min=torch.finfo(wide_MN.dtype).tiny)
    return Rows(around * scale, scaled_eps, scale, offset)
