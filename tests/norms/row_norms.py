"""The three norms as one function of rows, held to the truth in 80-bit floats on the same inputs.

A result may differ from the truth by rounding to its own dtype once.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from normkit import functional
from tests.norms.truth import Truth, row_truth

HALVES = (torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class RowNorm:
    """A norm of each row of x (M, N): of a token's features, or of a channel's positions."""

    name: str

    @property
    def center(self) -> bool:
        """Whether it subtracts a mean."""
        return self.name != "rms_norm"

    def ones(self, x: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """A gain of 1: one per feature, for batch_norm one per channel."""
        size = x.shape[0] if self.name == "batch_norm" else x.shape[1]
        return torch.ones(size, dtype=dtype or x.dtype)

    def __call__(
        self,
        x: Tensor,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        eps: float = 1e-5,
    ) -> Tensor:
        """Our result."""
        if self.name == "batch_norm":
            return functional.batch_norm(
                x, None, None, weight, bias, training=True, eps=eps, channel_axis=0
            ).y
        if self.name == "rms_norm":
            return functional.rms_norm(x, x.shape[1], weight, eps, bias=bias)
        return functional.layer_norm(x, x.shape[1], weight, bias, eps)

    def truth(
        self,
        x: Tensor,
        dy: Tensor,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        eps: float = 1e-5,
    ) -> Truth:
        """The right result and gradients; without a weight or bias those of 1 or 0."""
        weight = self.ones(x) if weight is None else weight
        bias = torch.zeros_like(weight) if bias is None else bias
        shape = (-1, 1) if self.name == "batch_norm" else (-1,)
        gain = weight.detach().reshape(shape), bias.detach().reshape(shape)
        return row_truth(x, dy, *gain, center=self.center, eps=eps)


LAYER, RMS, BATCH = RowNorm("layer_norm"), RowNorm("rms_norm"), RowNorm("batch_norm")
every_row_norm = pytest.mark.parametrize("norm", [LAYER, RMS, BATCH], ids=lambda n: n.name)
centring_norm = pytest.mark.parametrize("norm", [LAYER, BATCH], ids=lambda n: n.name)
every_half = pytest.mark.parametrize("dtype", HALVES, ids=str)


def assert_rounded_once(
    got: Tensor, want64: Tensor, what: str, scale: Tensor | None = None
) -> None:
    """Nothing but rounding to the dtype of the result separates the two.

    ``scale`` holds the terms that may cancel in it: their sum has some noise of float64.
    """
    info = torch.finfo(got.dtype)
    terms = want64 if scale is None else scale
    torch.testing.assert_close(
        got.detach().double(),
        want64,
        rtol=info.eps,
        atol=max(info.smallest_normal * info.eps, 1e-13 * terms.abs().max().item()),
        msg=lambda text: f"{what}: {text}",
    )


def check(
    norm: RowNorm,
    x: Tensor,
    dy: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Hold y, dx, dweight and dbias to the truth; x and dy keep their strides. Returns the four."""
    weight = norm.ones(x) if weight is None else weight
    bias = torch.zeros_like(weight) if bias is None else bias
    leaves = [t.detach().requires_grad_() for t in (x, weight, bias)]
    y = norm(*leaves, eps)
    y.backward(dy)
    truth = norm.truth(x, dy, weight, bias, eps)
    over = 1 if norm is BATCH else 0
    dx, dweight, dbias = (leaf.grad for leaf in leaves)
    assert dx is not None
    assert dweight is not None
    assert dbias is not None
    assert_rounded_once(y, truth.y, "y")
    assert_rounded_once(dx, truth.dx, "dx", truth.g * truth.inverse)
    for got, terms in ((dweight, truth.weight_terms), (dbias, truth.bias_terms)):
        assert_rounded_once(got, terms.sum(over), "gradient of a parameter", terms.abs().sum(over))
    return y.detach(), dx, dweight, dbias
