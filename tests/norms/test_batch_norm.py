"""BatchNorm: running statistics, drop-in checks, the stateless form, and the masked layer."""

from __future__ import annotations

import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import normkit
from normkit.errors import DtypeError, OptionError, ShapeError, StateError
from normkit.functional import batch_norm


@pytest.mark.parametrize("momentum", [0.1, 0.7, 1.0, 0.0, None])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_running_statistics_move_as_torchs(momentum: float | None, dims: int) -> None:
    ours = getattr(normkit, f"BatchNorm{dims}d")(3, momentum=momentum).double()
    theirs = getattr(nn, f"BatchNorm{dims}d")(3, momentum=momentum).double()
    for _ in range(4):
        x = 2 + torch.randn(4, 3, *[3] * dims, dtype=torch.float64)
        x = x if dims > 1 else x[..., 0]
        torch.testing.assert_close(ours(x), theirs(x))
    for name, buffer in ours.named_buffers():
        torch.testing.assert_close(buffer, theirs.get_buffer(name))
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x))


def test_functional_changes_nothing_and_returns_new_statistics() -> None:
    x = torch.randn(5, 3, requires_grad=True)
    mean, var = torch.zeros(3), torch.ones(3)
    out = batch_norm(x, mean, var, training=True, momentum=0.3)
    assert mean.abs().sum() == 0
    assert torch.equal(var, torch.ones(3))
    assert out.running_mean is not None
    assert out.running_var is not None
    assert not out.running_mean.requires_grad
    torch.testing.assert_close(out.running_mean, 0.3 * x.mean(0).detach())
    torch.testing.assert_close(out.running_var, 0.7 + 0.3 * x.var(0).detach())
    assert out.positions == 5


def test_stateless_form_under_functional_transforms() -> None:
    x, mean, var = torch.randn(4, 6, 3), torch.randn(4, 3), torch.rand(4, 3) + 0.5

    def one(x: torch.Tensor, m: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y, m, v, _ = batch_norm(x, m, v, training=True)
        assert m is not None
        assert v is not None
        return y, m, v

    together = torch.func.vmap(one)(x, mean, var)
    for i in range(4):
        for a, b in zip(together, one(x[i], mean[i], var[i]), strict=True):
            torch.testing.assert_close(a[i], b)


def test_channels_last_gives_the_same_bits() -> None:
    # The mechanism of pytorch#111824: another memory layout must not take another formula.
    layer = normkit.BatchNorm2d(32)
    x = 1000 + torch.randn(4, 32, 8, 8)
    other = normkit.BatchNorm2d(32)
    assert torch.equal(layer(x), other(x.contiguous(memory_format=torch.channels_last)))
    assert torch.equal(layer.running_var, other.running_var)


@given(
    lengths=st.lists(st.integers(0, 5), min_size=1, max_size=4),
    channel_axis=st.sampled_from([0, 1, 2, -1]),
    training=st.booleans(),
)
def test_masked_equals_the_gathered_computation(
    lengths: list[int], channel_axis: int, training: bool
) -> None:
    """Outputs, gradients and buffers are those of the real positions alone."""
    valid = torch.arange(5) < torch.tensor(lengths)[:, None]
    layer = normkit.MaskedBatchNorm(3, channel_axis=channel_axis, dtype=torch.float64)
    gathered = normkit.MaskedBatchNorm(3, dtype=torch.float64)
    with torch.no_grad():
        for name, value in layer.state_dict().items():
            value += torch.rand(value.shape).to(value.dtype)
            gathered.state_dict()[name].copy_(value)
    layer.train(training)
    gathered.train(training)
    x = torch.randn(len(lengths), 5, 3, dtype=torch.float64)
    dy = torch.randn(len(lengths), 5, 3, dtype=torch.float64)
    poisoned = torch.where(valid[..., None], x, torch.nan).movedim(-1, channel_axis)
    poisoned.requires_grad_()
    real = x[valid].requires_grad_()
    y, want = layer(poisoned, valid), gathered(real)
    y.backward(torch.where(valid[..., None], dy, torch.nan).movedim(-1, channel_axis))
    want.backward(dy[valid])
    assert poisoned.grad is not None
    assert real.grad is not None
    for moved, part in ((y, want), (poisoned.grad, real.grad)):
        whole = moved.movedim(channel_axis, -1)
        torch.testing.assert_close(whole[valid], part, rtol=1e-10, atol=1e-10)
        assert whole[~valid].abs().sum() == 0
    for a, b in zip(layer.parameters(), gathered.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-10, atol=1e-10)
    for name, buffer in layer.named_buffers():
        torch.testing.assert_close(buffer, gathered.get_buffer(name), rtol=1e-12, atol=1e-12)


def test_all_padding_touches_nothing() -> None:
    layer = normkit.MaskedBatchNorm(2, momentum=None)
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    x = torch.full((2, 3, 2), torch.nan, requires_grad=True)
    y = layer(x, torch.zeros(2, 3, dtype=torch.bool))
    y.sum().backward()
    assert y.abs().sum() == 0
    assert x.grad is not None
    assert x.grad.abs().sum() == 0
    for name, value in layer.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_one_real_position_gives_the_bias_and_keeps_the_variance() -> None:
    layer = normkit.MaskedBatchNorm(2)
    with torch.no_grad():
        layer.bias.copy_(torch.tensor([0.5, -2.0]))
    valid = torch.tensor([[True, False, False]])
    x = torch.randn(1, 3, 2, requires_grad=True)
    y = layer(x, valid)
    assert y[0, 0].tolist() == [0.5, -2.0]
    y.square().sum().backward()
    assert x.grad is not None
    assert x.grad.abs().sum() == 0
    assert torch.equal(layer.running_var, torch.ones(2))
    torch.testing.assert_close(layer.running_mean, 0.1 * x[0, 0].detach())
    assert layer.num_batches_tracked == 1


def test_masked_without_a_mask_is_batch_norm_over_tokens() -> None:
    masked, plain = normkit.MaskedBatchNorm(3), normkit.BatchNorm1d(3)
    x = torch.randn(4, 5, 3)
    assert torch.equal(masked(x), plain(x.reshape(20, 3)).reshape(4, 5, 3))
    assert torch.equal(masked.running_var, plain.running_var)
    assert not isinstance(masked, nn.modules.batchnorm._BatchNorm)


def test_masks_of_other_dtypes_and_shapes() -> None:
    layer = normkit.MaskedBatchNorm(3, track_running_stats=False)
    x = torch.randn(2, 4, 3)
    valid = torch.tensor([True, True, False, True])
    want = layer(x, valid.expand(2, 4))
    for mask in (valid, valid.int(), valid.float(), valid[None].expand(2, 4).to(torch.uint8)):
        assert torch.equal(layer(x, mask), want)
    image = normkit.MaskedBatchNorm(3, channel_axis=1)
    assert image(torch.randn(2, 3, 4, 5), torch.ones(2, 1, 5, dtype=torch.bool)).shape[1] == 3


def test_gain_and_bias_absent() -> None:
    x = torch.randn(4, 3)
    for layer in (
        normkit.BatchNorm1d(3, affine=False),
        normkit.MaskedBatchNorm(3, affine=False),
    ):
        assert layer.weight is None
        assert layer.bias is None
        assert layer(x).shape == x.shape
    assert normkit.BatchNorm1d(3, bias=False).bias is None
    assert normkit.MaskedBatchNorm(3, bias=False).bias is None


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: normkit.BatchNorm1d(16)(torch.randn(1, 16)),
            StateError,
            "BatchNorm1d: training needs more than one value per channel; x of shape (1, 16) has "
            "one. Use larger batches (drop_last=True in the loader), .eval(), or a LayerNorm.",
        ),
        (
            lambda: normkit.BatchNorm2d(16)(torch.randn(4, 16)),
            ShapeError,
            "BatchNorm2d: x must be (B, C, H, W); x is (4, 16).",
        ),
        (
            lambda: normkit.BatchNorm1d(16)(torch.randn(4, 10, 16)),
            ShapeError,
            "BatchNorm1d: axis 1 of x must hold the 16 channels; x is (4, 10, 16). "
            "Try x.transpose(1, -1).",
        ),
        (
            lambda: torch.func.jacrev(normkit.BatchNorm1d(10))(torch.randn(3, 10)),
            StateError,
            "BatchNorm1d: running statistics cannot be written inside torch.func or forward-mode "
            "transforms; the layer is in training mode. Call normkit.functional.batch_norm, which "
            "returns the new ones, or .eval() first.",
        ),
        (
            lambda: normkit.MaskedBatchNorm(3)(torch.randn(2, 4, 3), torch.tensor([0.5, 1, 1, 1])),
            DtypeError,
            "batch_norm: valid must be bool, or hold only 0 and 1; it is torch.float32. "
            "Try valid=mask.bool(), True where a position is real.",
        ),
        (
            lambda: normkit.MaskedBatchNorm(3)(torch.randn(2, 4, 3), torch.ones(2, 5).bool()),
            ShapeError,
            "batch_norm: valid must be broadcastable to x without its channel axis, (2, 4); "
            "it is (2, 5).",
        ),
        (
            lambda: normkit.MaskedBatchNorm(3)(torch.randn(2, 3, 4)),
            ShapeError,
            "MaskedBatchNorm: axis -1 of x must hold the 3 channels; x is (2, 3, 4). "
            "channel_axis names it.",
        ),
        (
            lambda: batch_norm(torch.randn(2, 3), torch.zeros(3), None, training=True),
            OptionError,
            "batch_norm: running_mean and running_var come together; one of them is None.",
        ),
        (
            lambda: batch_norm(torch.randn(2, 3), channel_axis=2, training=True),
            ShapeError,
            "batch_norm: channel_axis must be an axis of x, which has 2; it is 2.",
        ),
        (
            lambda: batch_norm(torch.randn(2, 3), weight=torch.ones(2), training=True),
            ShapeError,
            "batch_norm: weight must have one value per channel, (3,); it is (2,). "
            "channel_axis names the channels.",
        ),
    ],
)
def test_wrong_input_gets_a_sentence(call: object, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        call()  # type: ignore[operator]
