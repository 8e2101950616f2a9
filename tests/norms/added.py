"""The ops that add a residual before a norm: as functions, as layers, and the truth for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from normkit import functional, reference
from normkit.functional import AddNormOutput
from normkit.measure import Margin, assert_within, input_gradient_scale, output_scale, sum_scale
from tests.norms.cases import Case
from tests.norms.cases.case import built, seeded
from tests.norms.impls import IMPLS
from tests.norms.truth import row_truth

P = 0.25
SEED = 11
EPS = 1e-5


@dataclass(frozen=True)
class Added:
    """One of the ops by one implementation, with the same arguments as the others."""

    name: str
    impl: str = "torch"

    @property
    def drops(self) -> bool:
        """Whether it has dropout on x."""
        return self.name.startswith("dropout")

    @property
    def norm(self) -> Callable[..., Tensor]:
        """The norm alone, by the same implementation."""
        return partial(getattr(functional, self.name.partition("add_")[2]), impl=self.impl)

    @property
    def center(self) -> bool:
        """Whether the norm subtracts a mean."""
        return self.name.endswith("layer_norm")

    def __call__(
        self,
        x: Tensor,
        residual: Tensor,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        **options: Any,
    ) -> AddNormOutput:
        """Normalise over the last axis; with P and SEED, unless they are given."""
        dropout = {"p": P, "seed": SEED} if self.drops else {}
        op: Callable[..., AddNormOutput] = getattr(functional, self.name)
        given = {"eps": EPS, "bias": bias, "impl": self.impl, **dropout, **options}
        return op(x, residual, x.shape[-1], weight, **given)

    def factor(self, shape: tuple[int, ...], p: float = P, seed: int = SEED) -> Tensor:
        """What dropout multiplies x by, in float64; ones without dropout."""
        if not self.drops:
            return torch.ones(shape, dtype=torch.float64)
        count = torch.Size(shape).numel()
        words = reference.random_words(torch.tensor(seed), 0, count, torch.device("cpu"))
        return reference.dropout_factor(words, p, torch.float64).reshape(shape)


NAMES = ("add_layer_norm", "add_rms_norm", "dropout_add_layer_norm", "dropout_add_rms_norm")
ADDED = tuple(map(Added, NAMES))
EVERY = tuple(Added(name, impl) for impl in IMPLS for name in NAMES)


def over(ops: Sequence[Added]) -> pytest.MarkDecorator:
    """A test for each of them."""
    return pytest.mark.parametrize("op", ops, ids=lambda op: f"{op.name}-{op.impl}")


every_op = over(EVERY)
dropping_op = over([op for op in EVERY if op.drops])


class AddNorm(nn.Module):
    """An op as a layer over 4 features with one output, in which both of the op count."""

    def __init__(self, op: Added, **options: Any) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4, dtype=options.pop("dtype")))
        self.bias = nn.Parameter(torch.zeros_like(self.weight))
        self.op = op
        self.options = options

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        """Both outputs, h doubled."""
        y, h = self.op(x, residual, self.weight, self.bias, **self.options)
        return y + 2 * h


def case(op: Added, **options: Any) -> Case:
    """The layer as the shared contract takes it."""
    return Case(
        name=op.name,
        build=built(op.name, AddNorm, op, **options),
        shape=(2, 3, 4),
        op=op.name,
        others=lambda shape: (seeded(*shape),),
    )


CASES = (
    case(ADDED[0], alpha=0.5),
    case(ADDED[1], alpha=-1.5, eps=0.1, eps_place="outside", zero_centred=True),
    case(ADDED[2], zero_centred=True),
    case(ADDED[3], alpha=0.5, rounding="before_gain"),
)


def draw(*shape: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """x, residual, a weight and a bias of the last axis."""
    pair = torch.randn(2, *shape, dtype=torch.float64)
    parameters = 1 + 0.3 * torch.randn(2, shape[-1], dtype=torch.float64)
    return [t.to(dtype) for t in (*pair, *parameters)]


def check(
    op: Added, leaves: list[Tensor], dy: Tensor, dh: Tensor, alpha: float, **options: Any
) -> list[Margin]:
    """Hold y, h and all gradients to the bound: of a float64 computation, in torch operations.

    y and the gradients are those of h as it was returned, whose own error is held beside them.
    """
    x, residual, weight, bias = leaves = [t.requires_grad_() for t in leaves]
    y, h = op(*leaves, alpha=alpha, **options)
    dx, dresidual, dweight, dbias = torch.autograd.grad((y, h), leaves, (dy, dh))
    factor = op.factor(tuple(x.shape))
    terms = factor * x.detach().double(), alpha * residual.detach().double()
    w, b = weight.detach().double(), bias.detach().double()
    truth = row_truth(h, dy, w, b, center=op.center, eps=EPS)
    total = dh.double() + truth.dx
    scale = dh.double().abs() + input_gradient_scale(
        truth.g, truth.x_hat, truth.inverse, center=op.center
    )
    wide = truth.bias_terms * truth.x_hat.abs().amax(-1, keepdim=True)
    n, m = x.shape[-1], max(x.shape)
    compute = torch.float64 if op.impl == "torch" else torch.promote_types(h.dtype, torch.float32)
    expected = {
        "h": (h, sum(terms), 2, sum(t.abs() for t in terms)),
        "y": (y, truth.y, n, output_scale(truth.x_hat, w, b)),
        "dx": (dx, factor * total, n, factor * scale),
        "dresidual": (dresidual, alpha * total, n, abs(alpha) * scale),
        "dweight": (dweight, truth.weight_terms.sum(0), m, sum_scale(wide, axes=(0,))),
        "dbias": (dbias, dy.double().sum(0), m, sum_scale(dy.double(), axes=(0,))),
    }
    return [
        assert_within(got, true, compute_dtype=compute, terms=terms, row_scale=size, what=what)
        for what, (got, true, terms, size) in expected.items()
    ]
