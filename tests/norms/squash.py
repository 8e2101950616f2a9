"""The truth of DynamicTanh and DynamicErf in 80-bit floats, and the bound that ours is held to.

There are no statistics, so the bound is one of each element. What it allows beyond rounding is the
rounding of the argument z, times how fast the function moves there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

import normkit
from normkit.functional import dynamic_erf, dynamic_tanh
from normkit.measure import Margin, assert_within
from tests.norms.truth import Wide, narrow, wide

_erf = np.vectorize(lambda z: Wide(math.erf(float(z))), otypes=[Wide])


def _tanh_slope(z: Any) -> Any:
    e = np.exp(-2 * np.abs(z))
    return 4 * e / (1 + e) ** 2


@dataclass(frozen=True, kw_only=True)
class Squash:
    """One of the two functions.

    Attributes:
        layer: its module.
        f, slope: the bounded function and its derivative.
        bend: how fast the slope changes, relative to itself.
    """

    layer: type[torch.nn.Module]
    f: Callable[[Any], Any]
    slope: Callable[[Any], Any]
    bend: Callable[[Any], Any]

    def run(self, x: Tensor, parameters: dict[str, Tensor]) -> Tensor:
        """Ours, over the last axis."""
        call = dynamic_erf if "shift" in parameters else dynamic_tanh
        return call(x, x.shape[-1], **parameters)  # type: ignore[arg-type]

    def check(self, x: Tensor, dy: Tensor, parameters: dict[str, Tensor]) -> dict[str, Margin]:
        """Hold y and every gradient to the bound of a float64 computation."""
        leaves = {name: p.detach().requires_grad_() for name, p in parameters.items()}
        leaf = x.detach().requires_grad_()
        y = self.run(leaf, leaves)
        y.backward(dy)
        X, DY = wide(x), wide(dy)
        p = {name: wide(t) for name, t in parameters.items()}
        z = p["alpha"] * X + p.get("shift", Wide(0))
        # Both roundings of the argument, relative to their own sizes.
        moved = np.abs(p["alpha"] * X) + np.abs(z)
        f, slope = self.f(z), self.slope(z)
        u = DY * p["weight"] * slope
        shaken = 1 + self.bend(z) * moved
        by_f = np.abs(f) + slope * moved
        sizes = {
            "y": (f * p["weight"] + p["bias"], np.abs(p["weight"]) * by_f + np.abs(p["bias"])),
            "x": (p["alpha"] * u, np.abs(p["alpha"] * u) * shaken),
            "alpha": ((X * u).sum(), (np.abs(X * u) * shaken).sum()),
            "shift": (u.sum(), (np.abs(u) * shaken).sum()),
            "weight": ((DY * f).sum(0), (np.abs(DY) * by_f).sum(0)),
            "bias": (DY.sum(0), np.abs(DY).sum(0)),
        }
        got = {"y": y.detach(), "x": leaf.grad, **{n: t.grad for n, t in leaves.items()}}
        margins = {}
        for name, result in got.items():
            assert result is not None, name
            truth, size = (narrow(t).reshape(result.shape) for t in sizes[name])
            margins[name] = assert_within(
                result,
                truth,
                compute_dtype=torch.float64,
                terms=1 if name in ("y", "x") else x.numel(),
                row_scale=size,
                what=name,
            )
        return margins


TANH = Squash(
    layer=normkit.DynamicTanh, f=np.tanh, slope=_tanh_slope, bend=lambda z: 2 * np.abs(np.tanh(z))
)
ERF = Squash(
    layer=normkit.DynamicErf,
    f=_erf,
    slope=lambda z: 2 / np.sqrt(Wide(math.pi)) * np.exp(-(z**2)),
    bend=lambda z: 2 * np.abs(z),
)


def draw(squash: Squash, width: int, dtype: torch.dtype) -> dict[str, Tensor]:
    """Parameters that no default hides behind."""
    numbers = {"alpha": torch.tensor([0.7])}
    if squash is ERF:
        numbers["shift"] = torch.tensor([-0.3])
    vectors = dict(zip(("weight", "bias"), 1 + 0.3 * torch.randn(2, width), strict=True))
    return {name: t.to(dtype) for name, t in (numbers | vectors).items()}
