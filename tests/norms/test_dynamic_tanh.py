"""DynamicTanh, and what it shares with DynamicErf: the bound, the ends, channels, sentences."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import normkit
from normkit.errors import DtypeError, OptionError, ShapeError
from normkit.functional import dynamic_erf, dynamic_tanh
from tests.norms.regimes import DTYPES, REGIMES, Regime
from tests.norms.squash import ERF, TANH, Squash, draw

F64 = torch.float64
both = pytest.mark.parametrize("squash", [TANH, ERF], ids=["tanh", "erf"])


class Published(nn.Module):
    """The authors' layer, by its formula: the names and shapes of its parameters are theirs."""

    def __init__(self, width: int, channels_last: bool, alpha: float = 0.5) -> None:
        super().__init__()
        self.channels_last = channels_last
        self.alpha = nn.Parameter(torch.ones(1) * alpha)
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """y = tanh(alpha x) w + b."""
        w, b = self.weight, self.bias
        if not self.channels_last:
            w, b = w[:, None, None], b[:, None, None]
        return torch.tanh(self.alpha * x) * w + b


@pytest.mark.parametrize("regime", REGIMES.values(), ids=REGIMES.keys())
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@both
def test_bound(squash: Squash, dtype: torch.dtype, regime: Regime) -> None:
    for rows, width in ((5, 1), (7, 33), (2, 5000)):
        x, dy = regime(rows, width, dtype), torch.randn(rows, width, dtype=F64).to(dtype)
        squash.check(x, dy, draw(squash, width, dtype))


@both
def test_the_bound_bites(squash: Squash) -> None:
    x, dy = torch.randn(2, 64, 33)
    margins = squash.check(x, dy, draw(squash, 33, torch.float32))
    assert all(m.bites for name, m in margins.items() if name not in ("alpha", "shift"))


@both
def test_float64_slopes_keep_their_digits_where_the_function_is_flat(squash: Squash) -> None:
    # 1 - tanh^2 has no digit left at 20, where the slope is 1.7e-17.
    x = torch.linspace(-40, 40, 801, dtype=F64)[:, None]
    squash.check(x, torch.ones_like(x), draw(squash, 1, F64))


@pytest.mark.parametrize("channels_last", [True, False])
def test_the_published_state_dict_gives_the_published_result(channels_last: bool) -> None:
    theirs = Published(6, channels_last)
    ours = normkit.DynamicTanh(6, channel_axis=-1 if channels_last else 1)
    assert {n: p.shape for n, p in ours.named_parameters()} == {
        n: p.shape for n, p in theirs.named_parameters()
    }
    assert all(torch.equal(p, theirs.get_parameter(n)) for n, p in ours.named_parameters())
    with torch.no_grad():
        for p in theirs.parameters():
            p.add_(0.3 * torch.randn_like(p))
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(2, 6, 4, 5)
    x = x.movedim(1, -1) if channels_last else x
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-6, atol=1e-6)


def test_numbers_by_hand() -> None:
    # tanh(ln 2) = (4 - 1) / (4 + 1) = 0.6, and its slope there 1 - 0.36 = 0.64.
    x = torch.tensor([[math.log(4.0), -math.log(4.0)]], dtype=F64, requires_grad=True)
    alpha = torch.tensor([0.5], dtype=F64, requires_grad=True)
    weight = torch.tensor([10.0, 2.0], dtype=F64, requires_grad=True)
    y = dynamic_tanh(x, 2, alpha, weight, torch.tensor([1.0, 0.0], dtype=F64))
    torch.testing.assert_close(y, torch.tensor([[7.0, -1.2]], dtype=F64))
    y.sum().backward()
    torch.testing.assert_close(x.grad, torch.tensor([[3.2, 0.64]], dtype=F64))
    torch.testing.assert_close(weight.grad, torch.tensor([0.6, -0.6], dtype=F64))
    want = torch.tensor([0.64 * (10 - 2) * math.log(4.0)], dtype=F64)
    torch.testing.assert_close(alpha.grad, want)


@both
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_huge_inputs_give_the_ends_and_no_gradient(squash: Squash, dtype: torch.dtype) -> None:
    largest = torch.finfo(dtype).max
    x = torch.tensor([[-largest, largest]], dtype=dtype, requires_grad=True)
    weight, bias = torch.tensor([[2.0, 3.0], [0.5, 0.25]], dtype=dtype)
    # Four times the largest float64 is infinite.
    parameters = {"alpha": torch.tensor([4.0], dtype=dtype, requires_grad=True)}
    if squash is ERF:
        parameters["shift"] = torch.tensor([-1.0], dtype=dtype)
    parameters |= {"weight": weight, "bias": bias}
    y = squash.run(x, parameters)
    assert y.tolist() == [[-1.5, 3.25]]
    leaves = (x, parameters["alpha"])
    first = torch.autograd.grad(y.sum(), leaves, create_graph=True)
    assert all(g.abs().sum() == 0 for g in first)
    again = torch.autograd.grad(torch.cat([g.flatten() for g in first]).sum(), leaves)
    assert all(g.abs().sum() == 0 for g in again)
    functional = torch.func.grad(lambda t: squash.run(t, parameters).sum())(x.detach())
    assert functional.abs().sum() == 0


@both
def test_infinite_inputs_give_the_ends(squash: Squash) -> None:
    layer: Any = squash.layer(3)
    x = torch.tensor([[-math.inf, math.inf, math.nan]])
    assert layer(x)[0, :2].tolist() == [-1.0, 1.0]
    assert layer(x)[0, 2].isnan()


@both
def test_all_orders_at_zero(squash: Squash) -> None:
    # sech^2 written with |z| has a wrong third derivative there: sign(0) is 0.
    x = torch.zeros(1, 2, dtype=F64, requires_grad=True)
    parameters = draw(squash, 2, F64)
    shift = parameters.get("shift", torch.zeros(1, dtype=F64))
    plain = torch.erf if squash is ERF else torch.tanh
    results = []
    for value in (squash.run(x, parameters), plain(parameters["alpha"] * x + shift)):
        orders = []
        for _ in range(4):
            (value,) = torch.autograd.grad(value.sum(), x, create_graph=True)
            orders.append(value[0, 0].item())
        results.append(orders)
    ours = [order / parameters["weight"][0].item() for order in results[0]]
    assert ours == pytest.approx(results[1], rel=1e-12, abs=1e-12)


@both
def test_a_constant_row_is_nothing_special(squash: Squash) -> None:
    # pytorch#108072 asks of norms that a constant row gives the bias; here no row is measured.
    layer: Any = squash.layer(4)
    rows = layer(torch.tensor([[3.0, 3.0, 3.0, 3.0], [3.0, -1.0, 0.0, 50.0]]))
    assert torch.equal(rows[0], rows[1, :1].expand(4))
    assert rows[0, 0] > 0.9


@both
def test_not_scale_invariant(squash: Squash) -> None:
    layer: Any = squash.layer(4)
    x = torch.randn(3, 4)
    assert (layer(2 * x) - layer(x)).abs().max() > 0.1


@both
@pytest.mark.parametrize("channel_axis", [1, 2, -2])
def test_channels_elsewhere_equal_channels_moved_to_the_end(
    squash: Squash, channel_axis: int
) -> None:
    layer: Any = squash.layer(3, channel_axis=channel_axis)
    last: Any = squash.layer(3)
    with torch.no_grad():
        for p in layer.parameters():
            p.add_(torch.randn_like(p))
    last.load_state_dict(layer.state_dict())
    shape = [2, 4, 5, 6]
    shape[channel_axis] = 3
    x = torch.randn(shape)
    y = layer(x)
    assert torch.equal(y, last(x.movedim(channel_axis, -1)).movedim(-1, channel_axis))
    assert y.is_contiguous()


@both
def test_any_normalized_shape(squash: Squash) -> None:
    # ivy#19665, pytorch#78444: numpy sizes from configs.
    for given in (4, (4,), [4], torch.Size([4]), np.int64(4)):
        layer: Any = squash.layer(given)
        assert layer.normalized_shape == (4,)
        json.dumps(layer.normalized_shape)
        assert layer(torch.randn(2, 4)).shape == (2, 4)


@both
def test_missing_parameters_are_none(squash: Squash) -> None:
    # pytorch#101683, apex#403: outside code reads the attributes of any norm.
    plain: Any = squash.layer(4, elementwise_affine=False)
    assert plain.weight is None
    assert plain.bias is None
    no_bias: Any = squash.layer(4, bias=False)
    assert no_bias.bias is None
    assert no_bias.weight.shape == (4,)
    assert no_bias.eps == 0.0


@both
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_torch_encoder_calls_it(squash: Squash, dtype: torch.dtype) -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 8, dropout=0.0, batch_first=True, dtype=dtype)
    layer.norm1, layer.norm2 = squash.layer(8, dtype=dtype), squash.layer(8, dtype=dtype)
    layer.eval()
    x = torch.randn(2, 3, 8, dtype=dtype)
    with torch.no_grad():
        assert torch.equal(layer(x), layer(x.requires_grad_()).detach())


def test_repr_and_where_it_starts() -> None:
    layer = normkit.DynamicTanh((2, 3), 0.8, bias=False)
    text = "DynamicTanh((2, 3), alpha=0.8, elementwise_affine=True, bias=False)"
    assert repr(layer) == text
    assert layer.alpha.tolist() == pytest.approx([0.8])
    with torch.no_grad():
        layer.alpha.fill_(3)
    layer.reset_parameters()
    assert layer.alpha.tolist() == pytest.approx([0.8])
    assert repr(normkit.DynamicTanh(3, channel_axis=1)).endswith("bias=True, channel_axis=1)")


ONE = torch.ones(1)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: normkit.DynamicTanh(8)(torch.ones(2, 4)),
            ShapeError,
            "dynamic_tanh: the last axis of x must be 8; x is (2, 4). Try normalized_shape=4.",
        ),
        (
            lambda: normkit.DynamicTanh(8, channel_axis=1)(torch.ones(2, 4, 8)),
            ShapeError,
            "dynamic_tanh: axis 1 of x must hold the 8 channels; x is (2, 4, 8). "
            "channel_axis names it.",
        ),
        (
            lambda: normkit.DynamicTanh((2, 3), channel_axis=1),
            OptionError,
            "DynamicTanh: channel_axis names one axis, so normalized_shape must be one number; "
            "it is (2, 3).",
        ),
        (
            lambda: dynamic_tanh(torch.ones(2, 2, 3), (2, 3), ONE, channel_axis=1),
            OptionError,
            "dynamic_tanh: channel_axis names one axis, so normalized_shape must be one number; "
            "it is (2, 3).",
        ),
        (
            lambda: dynamic_tanh(torch.ones(2, 3), 3, ONE, channel_axis=2),
            ShapeError,
            "dynamic_tanh: channel_axis must be an axis of x, which has 2; it is 2.",
        ),
        (
            lambda: dynamic_tanh(torch.ones(2, 4).long(), 4, ONE),
            DtypeError,  # pytorch#78444
            "dynamic_tanh: x must be a floating-point tensor; x is torch.int64. Try x.float().",
        ),
        (
            lambda: dynamic_tanh(torch.ones(2, 4), 4, 0.5),  # type: ignore[arg-type]
            DtypeError,
            "dynamic_tanh: alpha must be a tensor of one number; it is float. "
            "Try torch.tensor([0.5]).",
        ),
        (
            lambda: dynamic_tanh(torch.ones(2, 4), 4, torch.ones(4)),
            ShapeError,
            "dynamic_tanh: alpha must be one number, of shape (1,) or (); it is (4,).",
        ),
        (
            lambda: dynamic_erf(torch.ones(2, 4), 4, ONE, torch.ones(2)),
            ShapeError,
            "dynamic_erf: shift must be one number, of shape (1,) or (); it is (2,).",
        ),
        (
            lambda: dynamic_tanh(torch.ones(2, 4), 4, ONE, torch.ones(1)),
            ShapeError,
            "dynamic_tanh: weight must have the shape of the normalised axes, (4,); it is (1,).",
        ),
        (
            lambda: dynamic_tanh(torch.ones(2, 4), 4, ONE, impl="triton"),
            OptionError,
            "dynamic_tanh: impl must be 'auto', 'torch' or 'cpu'; impl is 'triton'.",
        ),
    ],
)
def test_wrong_input_gets_a_sentence(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        call()
