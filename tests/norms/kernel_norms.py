"""The compiled norms over rows as functions of (x, weight, bias): what their tests run on.

A family joins with an entry in KERNELS; its call takes ``impl`` and the shape that is normalised.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from normkit import functional

Shape = tuple[int, ...]


def _rms_norm(x: Tensor, shape: Shape, weight: Tensor, bias: Tensor, *, impl: str) -> Tensor:
    return functional.rms_norm(x, shape, weight, 1e-5, bias=bias, impl=impl)


@dataclass(frozen=True)
class KernelNorm:
    """A norm over the last axes of x that has a compiled kernel."""

    name: str
    call: Callable[..., Tensor]
    center: bool

    def __call__(
        self,
        x: Tensor,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        *,
        impl: str = "cpu",
        axes: int = 1,
    ) -> Tensor:
        """y."""
        return self.call(x, tuple(x.shape[-axes:]), weight, bias, impl=impl)

    def all(
        self, x: Tensor, dy: Tensor, weight: Tensor, bias: Tensor, *, impl: str = "cpu"
    ) -> list[Tensor]:
        """[y, dx, dweight, dbias], x and dy read with the strides that they have."""
        leaves = [t.detach().requires_grad_() for t in (x, weight, bias)]
        y = self(*leaves, impl=impl, axes=weight.dim())
        return [y.detach(), *torch.autograd.grad(y, leaves, dy)]


KERNELS = [
    KernelNorm("layer_norm", functional.layer_norm, center=True),
    KernelNorm("rms_norm", _rms_norm, center=False),
]
every_kernel = pytest.mark.parametrize("norm", KERNELS, ids=lambda n: n.name)


def parameters(shape: Shape | int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """Gain and bias."""
    shape = (shape,) if isinstance(shape, int) else shape
    weight, bias = (1 + 0.3 * torch.randn(2, *shape)).to(dtype)
    return weight, bias


def assert_same_bits(got: list[Tensor], want: list[Tensor], what: object = "") -> None:
    """Every tensor equal, bit for bit."""
    for name, a, b in zip(("y", "dx", "dweight", "dbias"), got, want, strict=True):
        assert torch.equal(a, b), f"{name} {what}"
