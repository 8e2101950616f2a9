"""PowerNorm: the paper's recursion, the first passes, masks, evaluation, bounds, refusals."""

from __future__ import annotations

import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck

import normkit
from normkit.errors import DtypeError, OptionError, ShapeError, StateError
from normkit.functional import PowerPasses, power_norm
from tests.norms.power_paper import Paper
from tests.norms.regimes import DTYPES, REGIMES, Regime
from tests.norms.test_bounds import check, draw
from tests.norms.truth import row_truth


def tokens(*shape: int) -> Tensor:
    """Random tokens whose channels differ in scale."""
    scale = torch.linspace(0.5, 2.0, shape[-1], dtype=torch.float64)
    return torch.randn(shape, dtype=torch.float64) * scale


def group_scaled(x: Tensor, groups: int, eps: float = 1e-5) -> Tensor:
    """``x / sqrt(mean(x^2) + eps)`` over each group of features, in plain operations."""
    split = x.unflatten(-1, (groups, -1))
    return (split / (split.square().mean(-1, keepdim=True) + eps).sqrt()).flatten(-2)


@pytest.mark.parametrize("warmup", [0, 7])
@pytest.mark.parametrize("masked", [False, True], ids=["whole", "masked"])
def test_the_recursion_of_the_paper_over_20_steps(masked: bool, warmup: int) -> None:
    options = {"momentum": 0.3, "backward_momentum": 0.2, "warmup": warmup, "eps": 1e-3}
    layer = normkit.PowerNorm(3, groups=None, dtype=torch.float64, **options)
    paper = Paper(3, alpha_forward=0.7, alpha_backward=0.8, warmup=warmup, eps=1e-3)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([0.5, -1.0, 2.0]))
        layer.bias.copy_(torch.tensor([0.1, 0.2, 0.3]))
    for step in range(20):
        x, dy = tokens(4, 5, 3).requires_grad_(), tokens(4, 5, 3)
        valid = torch.rand(4, 5) < 0.7 if masked else torch.ones(4, 5, dtype=torch.bool)
        y = layer(x, valid if masked else None)
        layer.zero_grad()
        y.backward(dy)
        weight, bias = layer.weight.detach(), layer.bias.detach()
        x_hat, dx = paper.advance(x.detach()[valid], (dy * weight)[valid])
        torch.testing.assert_close(y[valid], x_hat * weight + bias, msg=f"y {step}")
        torch.testing.assert_close(x.grad[valid], dx, msg=f"dx {step}")
        torch.testing.assert_close(layer.weight.grad, (dy[valid] * x_hat).sum(0))
        torch.testing.assert_close(layer.bias.grad, dy[valid].sum(0))
        torch.testing.assert_close(layer.running_square, paper.square, msg=f"psi {step}")
        torch.testing.assert_close(layer.running_product, paper.nu, msg=f"nu {step}")
        assert layer.num_batches_tracked == step + 1
        assert y[~valid].abs().sum() == x.grad[~valid].abs().sum() == 0
    assert layer.running_product.abs().min() > 1e-3  # the backward statistic has a say


@pytest.mark.parametrize("groups", [None, 1, 2])
def test_the_first_passes_have_the_gradient_of_batch_statistics(groups: int | None) -> None:
    layer = normkit.PowerNorm(4, groups=groups, eps=0.01, warmup=3, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.normal_()
    squares = []
    for _ in range(3):
        x, dy = tokens(3, 5, 4).requires_grad_(), tokens(3, 5, 4)
        scaled = x if groups is None else group_scaled(x, groups, 0.01)
        square = scaled.square().mean((0, 1))
        want = scaled / (square + 0.01).sqrt() * layer.weight + layer.bias
        gradients = torch.autograd.grad(want, (x, layer.weight, layer.bias), dy)
        layer.zero_grad()
        y = layer(x)
        y.backward(dy)
        torch.testing.assert_close(y, want)
        for got, wanted in zip((x, *layer.parameters()), gradients, strict=True):
            torch.testing.assert_close(got.grad, wanted)
        squares.append(square.detach())
        torch.testing.assert_close(layer.running_square, torch.stack(squares).mean(0))


def test_group_scaling_is_a_step_before_with_an_exact_gradient() -> None:
    whole, part = (normkit.PowerNorm(6, groups=g, warmup=0, dtype=torch.float64) for g in (3, None))
    for _ in range(3):
        x, dy = tokens(2, 5, 6).requires_grad_(), tokens(2, 5, 6)
        twin = x.detach().clone().requires_grad_()
        y, want = whole(x), part(group_scaled(twin, 3))
        y.backward(dy)
        want.backward(dy)
        torch.testing.assert_close(y, want)
        torch.testing.assert_close(x.grad, twin.grad)
    for a, b in zip(whole.buffers(), part.buffers(), strict=True):
        torch.testing.assert_close(a, b)


@given(
    lengths=st.lists(st.integers(0, 5), min_size=1, max_size=4),
    channel_axis=st.sampled_from([0, 1, 2, -1]),
    groups=st.sampled_from([None, 1, 2]),
    warmup=st.sampled_from([0, 1, 9]),
)
def test_masked_equals_the_gathered_computation(
    lengths: list[int], channel_axis: int, groups: int | None, warmup: int
) -> None:
    """Outputs, gradients and buffers are those of the real positions alone."""
    valid = torch.arange(5) < torch.tensor(lengths)[:, None]
    options = {"groups": groups, "warmup": warmup, "dtype": torch.float64}
    layer = normkit.PowerNorm(4, channel_axis=channel_axis, **options)
    gathered = normkit.PowerNorm(4, **options)
    for training in (True, True, False):
        layer.train(training)
        gathered.train(training)
        x, dy = tokens(len(lengths), 5, 4), tokens(len(lengths), 5, 4)
        poisoned = torch.where(valid[..., None], x, torch.nan).movedim(-1, channel_axis)
        poisoned.requires_grad_()
        real = x[valid].requires_grad_()
        y, want = layer(poisoned, valid), gathered(real)
        y.backward(torch.where(valid[..., None], dy, torch.nan).movedim(-1, channel_axis))
        want.backward(dy[valid])
        for moved, part in ((y, want), (poisoned.grad, real.grad)):
            whole = moved.movedim(channel_axis, -1)
            torch.testing.assert_close(whole[valid], part, rtol=1e-10, atol=1e-10)
            assert whole[~valid].abs().sum() == 0
    for a, b in zip(layer.parameters(), gathered.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-10, atol=1e-10)
    for name, buffer in layer.named_buffers():
        torch.testing.assert_close(buffer, gathered.get_buffer(name), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("warmup", [0, 9])
def test_values_and_number_of_pads_change_no_bit(warmup: int) -> None:
    # In the public code changing padded values moved the backward statistic.
    x, dy = tokens(2, 3, 4), tokens(2, 3, 4)
    states = []
    for pads, value in ((1, 0.0), (1, 50.0), (4, torch.nan)):
        layer = normkit.PowerNorm(4, warmup=warmup, dtype=torch.float64)
        valid = torch.arange(3 + pads).expand(2, -1) < 3
        longer = torch.nn.functional.pad(x, (0, 0, 0, pads), value=value).requires_grad_()
        layer(longer, valid).backward(torch.nn.functional.pad(dy, (0, 0, 0, pads), value=value))
        grads = [longer.grad[:, :3], *(p.grad for p in layer.parameters())]
        states.append([*grads, *layer.buffers()])
    for a, b in zip(states[0], states[1], strict=True):
        assert torch.equal(a, b)
    for a, b in zip(states[0], states[2], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("warmup", [0, 9])
def test_all_padding_touches_nothing(warmup: int) -> None:
    # sIncerass/powernorm#15
    layer = normkit.PowerNorm(2, warmup=warmup)
    layer(torch.randn(2, 3, 2, requires_grad=True)).pow(2).sum().backward()
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    x = torch.full((2, 3, 2), torch.nan, requires_grad=True)
    y = layer(x, torch.zeros(2, 3, dtype=torch.bool))
    y.sum().backward()
    assert y.abs().sum() == x.grad.abs().sum() == 0
    for name, value in layer.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_evaluation_sees_one_token_at_a_time_and_is_exact() -> None:
    layer = normkit.PowerNorm(4, groups=2, dtype=torch.float64)
    for _ in range(3):
        layer(tokens(5, 6, 4).requires_grad_()).pow(2).sum().backward()
    layer.eval()
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    x = tokens(3, 5, 4)
    y = layer(x)
    torch.testing.assert_close(y, group_scaled(x, 2) / (layer.running_square + 1e-5).sqrt())
    assert torch.equal(layer(x[1:2, 3:4]), y[1:2, 3:4])
    assert gradcheck(layer, x.clone().requires_grad_())
    for name, value in layer.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_training_after_the_first_passes_does_not_look_at_this_batch() -> None:
    layer = normkit.PowerNorm(3, warmup=0)
    x = torch.randn(2, 4, 3)
    y = layer(x)
    layer.reset_running_stats()
    assert torch.equal(layer(torch.cat([x, 100 * x]))[:2], y)


def test_numbers_by_hand() -> None:
    layer = normkit.PowerNorm(1, warmup=0, groups=None, eps=0.0, dtype=torch.float64)
    layer.running_square.fill_(4.0)
    layer.running_product.fill_(0.5)
    x = torch.tensor([[3.0], [5.0]], dtype=torch.float64, requires_grad=True)
    y = layer(x)
    y.backward(torch.tensor([[1.0], [2.0]], dtype=torch.float64))
    assert y.flatten().tolist() == [1.5, 2.5]
    assert x.grad.flatten().tolist() == [(1 - 0.75) / 2, (2 - 1.25) / 2]
    # Gamma = (2.25 + 6.25) / 2, Lambda = (1.5 + 5) / 2
    assert layer.running_product.item() == pytest.approx(0.5 * (1 - 0.425) + 0.325)
    assert layer.running_square.item() == pytest.approx(0.9 * 4 + 0.1 * 17)


@pytest.mark.parametrize("regime", REGIMES.values(), ids=REGIMES.keys())
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_bounds(dtype: torch.dtype, regime: Regime) -> None:
    # Channels as rows: the truth of an RMSNorm whose gain belongs to the row.
    for channels, positions, part in [(3, 2, 1.0), (7, 33, 0.7), (2, 5000, 1.0)]:
        x, dy, _, _ = draw(regime, channels, positions, dtype)
        weight, bias = (1 + 0.3 * torch.randn(2, channels)).to(dtype)
        valid = torch.rand(positions) < part
        args = {"center": False, "eps": 1e-5, "measured": valid, "zero_unmeasured": True}
        truth = row_truth(x, dy, weight[:, None], bias[:, None], **args)
        leaves = [t.requires_grad_() for t in (x.clone(), weight, bias)]
        statistic = torch.ones(channels, dtype=torch.float64)
        options = {"training": True, "groups": None, "channel_axis": 0, "valid": valid}
        y = power_norm(leaves[0], statistic, None, *leaves[1:], **options).y
        y.backward(dy)
        gain = weight.detach().double()[:, None]
        margins = check(y, leaves, truth, gain, center=False, gain_axes=(1,))
    if regime is REGIMES["unit"] and dtype == torch.float32:
        assert any(m.bites for m in margins)


def test_functional_returns_new_statistics_and_a_holder_moves_the_backward_one() -> None:
    x = tokens(2, 3, 4)
    square, nu = torch.ones(4, dtype=torch.float64), torch.zeros(4, dtype=torch.float64)
    options = {"training": True, "warmup": 0, "groups": None}
    out = power_norm(x.requires_grad_(), square, nu, **options)
    out.y.sum().backward()
    assert torch.equal(square, torch.ones_like(square))
    assert torch.equal(nu, torch.zeros_like(nu))
    assert out.step == 1
    assert not out.running_square.requires_grad
    torch.testing.assert_close(out.running_square, 0.9 + 0.1 * x.detach().square().mean((0, 1)))
    held = power_norm(x, square, nu, passes=PowerPasses(nu), **options)
    held.y.sum().backward()  # the holder is gone, so nothing is to move
    assert torch.equal(nu, torch.zeros_like(nu))
    passes = PowerPasses(nu)
    power_norm(x, square, nu, passes=passes, **options).y.sum().backward()
    torch.testing.assert_close(nu, 0.1 * (x.detach() / (1 + 1e-5) ** 0.5).mean((0, 1)))


def test_values_that_are_not_finite_leave_their_channels() -> None:
    # pytorch#88474, #90342: one overflow under a gradient scaler poisons running statistics.
    layer = normkit.PowerNorm(2, warmup=0, groups=None)
    x = torch.tensor([[1.0, torch.inf], [2.0, 3.0]], requires_grad=True)
    layer(x).sum().backward()
    assert layer.running_square[1] == 1
    assert layer.running_square[0] != 1
    layer(torch.ones(2, 2, requires_grad=True)).backward(torch.tensor([[1.0, torch.inf]] * 2))
    assert layer.running_product.isfinite().all()
    assert layer.running_product[0] != 0


def test_half_modules_keep_wide_statistics() -> None:
    layer = normkit.PowerNorm(3, warmup=0, dtype=torch.float16, groups=None)
    layer(1000 * torch.randn(4, 3, dtype=torch.float16)).sum().backward()
    assert layer.running_square.dtype == layer.running_product.dtype == torch.float32
    assert (layer.running_square > 65504).any()


REFUSED = [
    (lambda: normkit.PowerNorm(4)(torch.randn(2, 3)), ShapeError,
     "PowerNorm: axis -1 of x must hold the 4 channels; x is (2, 3). channel_axis names it."),
    (lambda: normkit.PowerNorm(4, groups=3)(torch.randn(2, 4)), OptionError,
     "power_norm: groups must divide the 4 channels; it is 3. Try groups=2."),
    (lambda: normkit.PowerNorm(4, momentum=2)(torch.randn(2, 4)), OptionError,
     "power_norm: momentum must lie in [0, 1]; it is 2."),
    (lambda: normkit.PowerNorm(4, backward_momentum=-1)(torch.randn(2, 4)), OptionError,
     "power_norm: backward_momentum must lie in [0, 1]; it is -1."),
    (lambda: power_norm(torch.randn(2, 4), torch.ones(4), torch.ones(3)), ShapeError,
     "power_norm: running_product must have one value per channel, (4,); it is (3,). "
     "channel_axis names the channels."),
    (lambda: normkit.PowerNorm(4)(torch.ones(2, 4, dtype=torch.long)), DtypeError,
     "power_norm: x must be a floating-point tensor; x is torch.int64. Try x.float()."),
    (lambda: torch.func.grad(lambda x: normkit.PowerNorm(4)(x).sum())(torch.randn(2, 4)),
     StateError,
     "power_norm: training has no derivative for torch.func or forward-mode transforms; the "
     "backward pass is a rule of its own. Use training=False, or .eval() on a layer."),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "text"), REFUSED)
def test_refusals(call: object, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        call()  # type: ignore[operator]


def test_repr_names_the_options() -> None:
    assert repr(normkit.PowerNorm(4, groups=2)) == (
        "PowerNorm(4, eps=1e-05, momentum=0.1, backward_momentum=0.1, warmup=10000, affine=True, "
        "groups=2, channel_axis=-1)"
    )
