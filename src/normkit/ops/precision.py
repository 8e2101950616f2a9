"""In which dtype a norm computes, and how rows that would overflow it are brought into range."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from normkit.spec.norm import EpsPlace

# Float64 is missing on Apple's GPUs; float32 with the scaling below is right there too.
_WITHOUT_FLOAT64 = ("mps",)


def compute_dtype(x: Tensor) -> torch.dtype:
    """The dtype that statistics and products are computed in: float64 where the device has it.

    Float32 and half inputs then square without overflow, and means far above the spread keep
    their digits.
    """
    return torch.float32 if x.device.type in _WITHOUT_FLOAT64 else torch.float64


@dataclass(frozen=True)
class Rows:
    """Rows in the compute dtype that are safe to square, and what was done to make them so.

    A norm keeps its value when x is scaled by s and eps with it (s^2 inside the root, s outside),
    and when all of a row is shifted, if it centres.

    Attributes:
        x_MN: the rows.
        eps: a number, or one per row as (M, 1).
        scale_M1, start_M1: x_MN is ``(x - start) * scale``; None where nothing was done.
    """

    x_MN: Tensor
    eps: float | Tensor
    scale_M1: Tensor | None = None
    start_M1: Tensor | None = None

    def like(self, parameter: Tensor | None) -> Tensor | None:
        """A weight or bias as one axis in the compute dtype; None stays None."""
        return None if parameter is None else parameter.reshape(-1).to(self.x_MN.dtype)

    def gradient(self, dx_MN: Tensor) -> Tensor:
        """Gradient of the rows as they came."""
        return dx_MN if self.scale_M1 is None else dx_MN * self.scale_M1

    def statistics(self, mean_M: Tensor, var_M: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of the rows as they came."""
        if self.scale_M1 is None or self.start_M1 is None:
            return mean_M, var_M
        scale, start = self.scale_M1.squeeze(-1), self.start_M1.squeeze(-1)
        return mean_M / scale + start, var_M / scale.square()


def in_range(x_MN: Tensor, eps: float, eps_place: EpsPlace = "inside") -> Rows:
    """Widen rows to the compute dtype, into the range in which it can square them.

    Where the input's dtype leaves the compute dtype no headroom, rows that could overflow are
    scaled by a power of two, which is exact.
    """
    wide_MN = x_MN.to(compute_dtype(x_MN)).contiguous()
    headroom = torch.finfo(x_MN.dtype).bits < torch.finfo(wide_MN.dtype).bits
    if headroom or not wide_MN.shape[-1]:
        return Rows(wide_MN, eps)
    _, exponent = torch.frexp(wide_MN.detach().abs().amax(-1, keepdim=True))
    largest = 250 if wide_MN.dtype == torch.float64 else 50
    scale = torch.ldexp(wide_MN.new_ones(()), -torch.where(exponent > largest, exponent, 0))
    scaled_eps = eps * (scale.square() if eps_place == "inside" else scale)
    return Rows(wide_MN * scale, scaled_eps, scale, torch.zeros_like(scale))


def around_first(rows: Rows) -> Rows:
    """Let rows that will be centred start at their first element.

    Subtracting numbers that lie close together is exact, so that means far above the spread cost
    no digits. Only rows that :func:`in_range` touched need it.
    """
    if rows.scale_M1 is None:
        return rows
    first = rows.x_MN.detach()[..., :1]
    return replace(rows, x_MN=rows.x_MN - first, start_M1=first / rows.scale_M1)
