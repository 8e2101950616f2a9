"""The three norms as functions of rows, held to the truth for the same rounded inputs.

The bound is that of an honest computation in float32 (float64 for float64 input), however wide
ours computes: what the reports describe breaks it by far.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from normkit import functional
from normkit.measure import assert_within, input_gradient_scale, output_scale, sum_scale
from tests.norms.impls import IMPLS
from tests.norms.truth import Truth, row_truth

HALVES = (torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class RowNorm:
    """A norm of each row of x (M, N): of a token's features, or of a channel's positions."""

    name: str
    impl: str = "torch"

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
                x, None, None, weight, bias, training=True, eps=eps, channel_axis=0, impl=self.impl
            ).y
        if self.name == "rms_norm":
            return functional.rms_norm(x, x.shape[1], weight, eps, bias=bias, impl=self.impl)
        return functional.layer_norm(x, x.shape[1], weight, bias, eps, impl=self.impl)

    def gain_and_bias(
        self, x: Tensor, weight: Tensor | None, bias: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Both in float64, as they stand against x; 1 and 0 where they are None."""
        weight = self.ones(x) if weight is None else weight
        bias = torch.zeros_like(weight) if bias is None else bias
        shape = (-1, 1) if self.name == "batch_norm" else (-1,)
        return weight.detach().double().reshape(shape), bias.detach().double().reshape(shape)

    def truth(
        self,
        x: Tensor,
        dy: Tensor,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        eps: float = 1e-5,
    ) -> Truth:
        """The right result and gradients, in 80-bit floats."""
        gain, shift = self.gain_and_bias(x, weight, bias)
        return row_truth(x, dy, gain, shift, center=self.center, eps=eps)


LAYER, RMS, BATCH = RowNorm("layer_norm"), RowNorm("rms_norm"), RowNorm("batch_norm")
KERNELS = [RowNorm(norm.name, impl) for norm in (LAYER, RMS) for impl in IMPLS[1:]]
ROW_NORMS = [LAYER, RMS, BATCH, *KERNELS]


def id_of(norm: RowNorm) -> str:
    """Its name, and the implementation where that is not torch operations."""
    return norm.name if norm.impl == "torch" else f"{norm.name}_{norm.impl}"


every_row_norm = pytest.mark.parametrize("norm", ROW_NORMS, ids=id_of)
centring_norm = pytest.mark.parametrize("norm", [n for n in ROW_NORMS if n.center], ids=id_of)
every_half = pytest.mark.parametrize("dtype", HALVES, ids=str)


def compute_dtype(x: Tensor) -> torch.dtype:
    """The least that a norm of x computes in."""
    return torch.promote_types(x.dtype, torch.float32)


def check_output(
    norm: RowNorm,
    y: Tensor,
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> None:
    """Hold y to the truth."""
    truth = norm.truth(x, x, weight, bias, eps)
    scale = output_scale(truth.x_hat, *norm.gain_and_bias(x, weight, bias))
    compute = compute_dtype(x)
    assert_within(y, truth.y, compute_dtype=compute, terms=x.shape[1], row_scale=scale)


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
    check_output(norm, y, x, weight, bias, eps)
    truth, compute = norm.truth(x, dy, weight, bias, eps), compute_dtype(x)
    dx, dweight, dbias = (leaf.grad for leaf in leaves)
    assert dx is not None
    assert dweight is not None
    assert dbias is not None
    scale = input_gradient_scale(truth.g, truth.x_hat, truth.inverse, center=norm.center)
    width = x.shape[1]
    assert_within(dx, truth.dx, compute_dtype=compute, terms=width, row_scale=scale, what="dx")
    over = 1 if norm is BATCH else 0
    # A term dy * x_hat carries the error of x_hat, which is one of its row.
    wide = truth.bias_terms * truth.x_hat.abs().amax(-1, keepdim=True)
    for what, got, terms, size in (
        ("dweight", dweight, truth.weight_terms, wide),
        ("dbias", dbias, truth.bias_terms, truth.bias_terms),
    ):
        assert_within(
            got,
            terms.sum(over),
            compute_dtype=compute,
            terms=x.numel(),
            row_scale=sum_scale(size, axes=(over,)),
            what=what,
        )
    return y.detach(), dx, dweight, dbias
