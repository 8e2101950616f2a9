"""InstanceNorm: running statistics, masks, unbatched input, the public reports."""

from __future__ import annotations

import copy
import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

import normkit
from normkit.errors import OptionError, ShapeError, StateError
from normkit.functional import instance_norm


@pytest.mark.parametrize("momentum", [0.1, 0.7, 1.0, 0.0, None])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_running_statistics_move_as_torchs(momentum: float | None, axes: int) -> None:
    options = {"momentum": momentum, "affine": True, "track_running_stats": True}
    ours = getattr(normkit, f"InstanceNorm{axes}d")(3, **options).double()
    theirs = getattr(nn, f"InstanceNorm{axes}d")(3, **options).double()
    for _ in range(3):
        x = 2 + torch.randn(4, 3, *[3] * axes, dtype=torch.float64)
        torch.testing.assert_close(ours(x), theirs(x))
    for name, buffer in ours.named_buffers():
        torch.testing.assert_close(buffer, theirs.get_buffer(name))
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x))
    torch.testing.assert_close(ours(x[0]), theirs(x[0]))  # without a batch


@pytest.mark.parametrize("tracks", [False, True])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_without_a_batch_it_is_a_batch_of_one(axes: int, tracks: bool) -> None:
    name = f"InstanceNorm{axes}d"
    alone, batched = (getattr(normkit, name)(3, track_running_stats=tracks) for _ in range(2))
    x = torch.randn(3, *[4] * axes)
    valid = torch.rand(4) < 0.6
    assert torch.equal(alone(x, valid), batched(x[None], valid)[0])
    for a, b in zip(alone.buffers(), batched.buffers(), strict=True):
        assert torch.equal(a, b)


def test_evaluation_computes_as_training_unless_statistics_are_tracked() -> None:
    x = 5 + torch.randn(2, 3, 7)
    plain, tracking = normkit.InstanceNorm1d(3), normkit.InstanceNorm1d(3, track_running_stats=True)
    assert torch.equal(plain(x), plain.eval()(x))
    assert not list(plain.state_dict())
    assert torch.equal(tracking(x), plain(x))
    before = {name: value.clone() for name, value in tracking.state_dict().items()}
    want = (x - before["running_mean"][:, None]) / (before["running_var"][:, None] + 1e-5).sqrt()
    torch.testing.assert_close(tracking.eval()(x), want)
    for name, value in tracking.state_dict().items():
        assert torch.equal(value, before[name])


def test_functional_changes_nothing_and_returns_new_statistics() -> None:
    x = torch.randn(5, 3, 4, requires_grad=True)
    mean, var = torch.zeros(3), torch.ones(3)
    out = instance_norm(x, mean, var, momentum=0.3)
    assert mean.abs().sum() == 0
    assert torch.equal(var, torch.ones(3))
    assert out.running_mean is not None
    assert out.running_var is not None
    assert out.positions is not None
    assert not out.running_mean.requires_grad
    torch.testing.assert_close(out.running_mean, 0.3 * x.mean((0, 2)).detach())
    torch.testing.assert_close(out.running_var, 0.7 + 0.3 * x.var(2).mean(0).detach())
    assert out.positions.tolist() == [4] * 5
    given = instance_norm(x, mean, var, use_input_stats=False)
    assert given.running_mean is mean
    assert given.positions is None


def test_stateless_form_under_functional_transforms() -> None:
    x, mean, var = torch.randn(4, 2, 3, 5), torch.randn(4, 3), torch.rand(4, 3) + 0.5

    def one(x: Tensor, m: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        y, m, v, _ = instance_norm(x, m, v)
        assert m is not None
        assert v is not None
        return y, m, v

    together = torch.func.vmap(one)(x, mean, var)
    for i in range(4):
        for a, b in zip(together, one(x[i], mean[i], var[i]), strict=True):
            torch.testing.assert_close(a[i], b)


@given(
    mask=st.lists(st.lists(st.booleans(), min_size=5, max_size=5), min_size=1, max_size=4),
    training=st.booleans(),
)
def test_masked_equals_the_gathered_computation(mask: list[list[bool]], training: bool) -> None:
    """Outputs, gradients and buffers are those of the real positions, sample by sample."""
    valid, options = torch.tensor(mask), {"affine": True, "track_running_stats": True}
    layer = normkit.InstanceNorm1d(3, **options, dtype=torch.float64).train(training)
    with torch.no_grad():
        for value in layer.state_dict().values():
            value += torch.rand(value.shape).to(value.dtype)
    alone = copy.deepcopy(layer)
    old = [b.clone() for b in (layer.running_mean, layer.running_var) if b is not None]
    x, dy = torch.randn(2, len(mask), 3, 5, dtype=torch.float64)
    polluted = torch.where(valid[:, None], x, torch.nan).requires_grad_()
    y = layer(polluted, valid)
    y.backward(torch.where(valid[:, None], dy, torch.nan))
    assert polluted.grad is not None
    means, variances = [], []
    for i, real in enumerate(valid):
        leaf = x[i : i + 1, :, real].requires_grad_()
        want = instance_norm(
            leaf, old[0], old[1], alone.weight, alone.bias, training, eps=alone.eps
        ).y
        want.backward(dy[i : i + 1, :, real])
        assert leaf.grad is not None
        for got, part in ((y, want), (polluted.grad, leaf.grad)):
            torch.testing.assert_close(got[i : i + 1, :, real], part, rtol=1e-9, atol=1e-9)
            assert got[i, :, ~real].abs().sum() == 0
        means += [x[i, :, real].mean(1)] if real.sum() > 0 else []
        variances += [x[i, :, real].var(1)] if real.sum() > 1 else []
    for a, b in zip(layer.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-9, atol=1e-9)
    for buffer, before, found in zip(
        (layer.running_mean, layer.running_var), old, (means, variances), strict=True
    ):
        moves = training and found
        after = 0.9 * before + 0.1 * torch.stack(found).mean(0) if moves else before
        torch.testing.assert_close(buffer, after, rtol=1e-12, atol=1e-12)


def test_padding_alone_touches_nothing() -> None:
    layer = normkit.InstanceNorm1d(2, affine=True, track_running_stats=True)
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    x = torch.full((2, 2, 3), torch.nan, requires_grad=True)
    y = layer(x, torch.zeros(2, 3, dtype=torch.bool))
    y.sum().backward()
    assert y.abs().sum() == 0
    assert x.grad is not None
    assert x.grad.abs().sum() == 0
    for name, value in layer.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_one_real_position_gives_the_bias_and_keeps_the_variance() -> None:
    layer = normkit.InstanceNorm1d(2, affine=True, track_running_stats=True)
    with torch.no_grad():
        layer.bias.copy_(torch.tensor([0.5, -2.0]))
    x = torch.randn(1, 2, 3)
    y = layer(x, torch.tensor([[True, False, False]]))
    assert y[0, :, 0].tolist() == [0.5, -2.0]
    assert torch.equal(layer.running_var, torch.ones(2))
    torch.testing.assert_close(layer.running_mean, 0.1 * x[0, :, 0])


def test_takes_the_mask_of_the_block_around() -> None:
    x, valid = torch.randn(2, 3, 2, 3), torch.rand(2, 2, 3) < 0.7
    layer = normkit.InstanceNorm2d(3)
    with normkit.valid(valid):
        assert torch.equal(nn.Sequential(layer)(x), layer(x, valid))
    assert not torch.equal(layer(x), layer(x, valid))


def test_a_batch_of_one_is_no_special_case() -> None:
    # pytorch#4534: BatchNorm fails or gives signs alone there; here a sample stands by itself.
    x, layer = torch.randn(3, 4, 6), normkit.InstanceNorm1d(4)
    assert torch.equal(layer(x[1:2])[0], layer(x)[1])


def test_is_not_converted_to_sync_batch_norm() -> None:
    # pytorch#22192, NVIDIA/apex#387: converters that take every _NormBase rebuild InstanceNorm.
    model = nn.Sequential(
        normkit.InstanceNorm2d(3),
        normkit.GroupNorm(1, 3),
        normkit.ChannelLayerNorm(3),
        normkit.MaskedBatchNorm(3),
    )
    kinds = [type(layer) for layer in model]
    converted = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    assert [type(layer) for layer in converted] == kinds
    assert not any(isinstance(layer, nn.modules.batchnorm._BatchNorm) for layer in model)


def test_other_channels_warn_where_nothing_depends_on_them() -> None:
    text = "InstanceNorm1d: axis 1 of x must hold the 3 channels; x is (2, 4, 5)."
    with pytest.warns(UserWarning, match=f"^{re.escape(text)}$"):
        y = normkit.InstanceNorm1d(3)(torch.ones(2, 4, 5))
    assert y.shape == (2, 4, 5)


def test_gain_and_bias_absent() -> None:
    plain = normkit.InstanceNorm1d(3)
    assert plain.weight is None
    assert plain.bias is None
    half = normkit.InstanceNorm1d(3, affine=True, bias=False)
    assert half.weight is not None
    assert half.bias is None


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: normkit.InstanceNorm2d(3)(torch.ones(2, 3, 1, 1)),
            StateError,
            "InstanceNorm2d: statistics of one sample need more than one position; x of shape "
            "(2, 3, 1, 1) has one. Put the norm where there are more, or use a GroupNorm or "
            "ChannelLayerNorm.",
        ),
        (
            lambda: normkit.InstanceNorm2d(3)(torch.ones(2, 3)),
            ShapeError,
            "InstanceNorm2d: x must be (B, C, H, W), or without B; x is (2, 3).",
        ),
        (
            lambda: normkit.InstanceNorm1d(3, affine=True)(torch.ones(2, 4, 3)),
            ShapeError,
            "InstanceNorm1d: axis 1 of x must hold the 3 channels; x is (2, 4, 3). "
            "Try x.movedim(-1, 1).",
        ),
        (
            lambda: normkit.InstanceNorm1d(3, track_running_stats=True)(torch.ones(4, 2)),
            ShapeError,
            "InstanceNorm1d: axis 0 of x must hold the 3 channels; x is (4, 2).",
        ),
        (
            lambda: torch.func.jacrev(normkit.InstanceNorm1d(3, track_running_stats=True))(
                torch.ones(2, 3, 4)
            ),
            StateError,
            "InstanceNorm1d: running statistics cannot be written inside torch.func or "
            "forward-mode transforms; the layer is in training mode. Call "
            "normkit.functional.instance_norm, which returns the new ones, or .eval() first.",
        ),
        (
            lambda: instance_norm(torch.ones(2, 3, 4), torch.zeros(3), None),
            OptionError,
            "instance_norm: running_mean and running_var come together; one of them is None.",
        ),
        (
            lambda: instance_norm(torch.ones(2, 3, 4), use_input_stats=False),
            OptionError,
            "instance_norm: use_input_stats=False needs running_mean and running_var; "
            "they are None.",
        ),
        (
            lambda: instance_norm(torch.ones(3)),
            ShapeError,
            "instance_norm: x must be (B, C, *); x is (3,).",
        ),
    ],
)
def test_wrong_input_gets_a_sentence(call: object, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        call()  # type: ignore[operator]
