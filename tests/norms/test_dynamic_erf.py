"""DynamicErf: numbers by hand, the shift; what it shares with DynamicTanh is tested there."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import normkit
from normkit.functional import dynamic_erf

F64 = torch.float64


class Published(nn.Module):
    """The authors' layer, by its formula: the names and shapes of its parameters are theirs."""

    def __init__(self, width: int, alpha: float = 0.5, shift: float = 0.0) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(1) * alpha)
        self.shift = nn.Parameter(torch.ones(1) * shift)
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """y = w erf(alpha x + s) + b."""
        return self.weight * torch.erf(self.alpha * x + self.shift) + self.bias


def test_the_published_state_dict_gives_the_published_result() -> None:
    theirs, ours = Published(6), normkit.DynamicErf(6)
    first = dict(theirs.named_parameters())
    assert {n: p.tolist() for n, p in ours.named_parameters()} == {
        n: p.tolist() for n, p in first.items()
    }
    with torch.no_grad():
        for p in theirs.parameters():
            p.add_(0.3 * torch.randn_like(p))
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(4, 6)
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-6, atol=1e-6)


def test_numbers_by_hand() -> None:
    # The slope of erf at z is 2 / sqrt(pi) exp(-z^2), here with z = 0.5 * 1 + 0.5 = 1.
    x = torch.tensor([[1.0, -1.0]], dtype=F64, requires_grad=True)
    alpha, shift = (torch.tensor([0.5], dtype=F64, requires_grad=True) for _ in range(2))
    weight = torch.tensor([2.0, 3.0], dtype=F64, requires_grad=True)
    bias = torch.tensor([1.0, -1.0], dtype=F64)
    y = dynamic_erf(x, 2, alpha, shift, weight, bias)
    end = 0.84270079294971487  # erf(1), Abramowitz and Stegun, table 7.1
    torch.testing.assert_close(y, torch.tensor([[2 * end + 1, -1.0]], dtype=F64))
    y.sum().backward()
    at_1, at_0 = 2 / math.sqrt(math.pi) * math.exp(-1), 2 / math.sqrt(math.pi)
    torch.testing.assert_close(x.grad, torch.tensor([[at_1, 1.5 * at_0]], dtype=F64))
    torch.testing.assert_close(alpha.grad, torch.tensor([2 * at_1 - 3 * at_0], dtype=F64))
    torch.testing.assert_close(shift.grad, torch.tensor([2 * at_1 + 3 * at_0], dtype=F64))
    torch.testing.assert_close(weight.grad, torch.tensor([end, 0.0], dtype=F64))


def test_no_shift_is_a_shift_of_zero() -> None:
    x, alpha = torch.randn(3, 4, dtype=F64, requires_grad=True), torch.tensor(0.7, dtype=F64)
    zero = torch.zeros((), dtype=F64)
    pair = [dynamic_erf(x, 4, alpha, shift) for shift in (None, zero)]
    assert torch.equal(*pair)
    assert torch.equal(*(torch.autograd.grad(y.pow(2).sum(), x)[0] for y in pair))


def test_repr_and_where_it_starts() -> None:
    layer = normkit.DynamicErf(3, 0.8, -0.25)
    text = "DynamicErf((3,), alpha=0.8, elementwise_affine=True, bias=True, initial_shift=-0.25)"
    assert repr(layer) == text
    with torch.no_grad():
        for p in layer.parameters():
            p.fill_(3)
    layer.reset_parameters()
    assert layer.alpha.tolist() == pytest.approx([0.8])
    assert layer.shift.tolist() == [-0.25]
    assert repr(normkit.DynamicErf(3)).endswith("bias=True)")
