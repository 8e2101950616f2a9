"""ChannelLayerNorm: LayerNorm with the channels last, in every layout; timm's weights.

The torch operations give its very bits. The compiled kernel adds in another order where the
positions lie side by side; it is held to the bound in test_channel_layer_norm_kernel.py.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

import normkit
from normkit import reference
from normkit.errors import OptionError, ShapeError
from normkit.functional import channel_layer_norm, layer_norm
from tests.norms.cases import scramble
from tests.norms.regimes import DTYPES, REGIMES, Regime

OPTIONS: list[dict[str, Any]] = [
    {},
    {"eps": 0.1},
    {"eps": 0.1, "eps_place": "outside"},
    {"eps": 0.8, "eps_place": "clamp"},
    {"zero_centred": True},
]


TORCH: dict[str, Any] = {"impl": "torch"}


def results(f: Any, x: Tensor, dy: Tensor, *parameters: Tensor) -> list[Tensor]:
    """y, dx and the parameters' gradients."""
    leaves = [t.detach().requires_grad_() for t in (x, *parameters)]
    y = f(*leaves)
    return [y.detach(), *torch.autograd.grad(y, leaves, dy)]


@given(
    space=st.lists(st.integers(0, 4), max_size=3),
    axis=st.integers(-2, 1),
    options=st.sampled_from(OPTIONS),
)
def test_is_layer_norm_with_the_channels_moved(
    space: list[int], axis: int, options: dict[str, Any]
) -> None:
    # Any number of spatial axes, none included; with channels in front, in between or last.
    weight, bias = torch.randn(2, 5)
    last, dy = torch.randn(2, 3, *space, 5)
    want = results(
        lambda x, w, b: layer_norm(x, 5, w, b, **{"eps": 1e-6, **options, **TORCH}),
        last,
        dy,
        weight,
        bias,
    )
    got = results(
        lambda x, w, b: channel_layer_norm(x, w, b, channel_axis=axis, **options, **TORCH),
        last.movedim(-1, axis),
        dy.movedim(-1, axis),
        weight,
        bias,
    )
    for a, b in zip(got[:2], want[:2], strict=True):
        assert torch.equal(a.movedim(axis, -1), b)
    for a, b in zip(got[2:], want[2:], strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("regime", REGIMES.values(), ids=REGIMES.keys())
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_regime_has_the_bits_of_layer_norm(dtype: torch.dtype, regime: Regime) -> None:
    x, dy = regime(12, 7, dtype), torch.randn(12, 7).to(dtype)
    weight, bias = torch.randn(2, 7).to(dtype)
    want = results(lambda x, w, b: layer_norm(x, 7, w, b, 1e-6, **TORCH), x, dy, weight, bias)
    image, image_dy = (t.reshape(2, 3, 2, 7).movedim(-1, 1) for t in (x, dy))
    for layout in (torch.contiguous_format, torch.channels_last):
        y, dx, *gradients = results(
            lambda x, w, b: channel_layer_norm(x, w, b, **TORCH),
            image.contiguous(memory_format=layout),
            image_dy,
            weight,
            bias,
        )
        assert y.is_contiguous(memory_format=layout)
        for a, b in zip((y, dx), want[:2], strict=True):
            assert torch.equal(a.movedim(1, -1).reshape(12, 7), b)
        for a, b in zip(gradients, want[2:], strict=True):
            assert torch.equal(a, b)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("axis", [1, -1])
def test_the_op_equals_the_formula(axis: int, options: dict[str, Any]) -> None:
    x, dy = torch.randn(2, 3, 4, 3, dtype=torch.float64)
    weight, bias = torch.randn(2, x.shape[axis], dtype=torch.float64)
    got = results(
        lambda x, w, b: channel_layer_norm(x, w, b, channel_axis=axis, **options),
        x,
        dy,
        weight,
        bias,
    )
    y = reference.channel_layer_norm(x, weight, bias, channel_axis=axis, **options)
    gradients = reference.channel_layer_norm_backward(dy, x, weight, channel_axis=axis, **options)
    for a, b in zip(got, (y, *gradients), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def test_computes_what_timms_layer_norm_2d_does() -> None:
    # huggingface/pytorch-image-models: nn.LayerNorm between two permutations, weight and bias (C,).
    theirs = nn.LayerNorm(6, eps=1e-6).double()
    nn.init.normal_(theirs.weight)
    nn.init.normal_(theirs.bias)
    ours = normkit.ChannelLayerNorm(6).double()
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(2, 6, 3, 4, dtype=torch.float64)
    want = theirs(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
    torch.testing.assert_close(ours(x), want, rtol=1e-12, atol=1e-12)


def test_a_pixel_stands_alone_and_the_weights_know_no_size() -> None:
    # facebookresearch/ConvNeXt#112, tf-keras#173: LayerNorm((C, H, W)) mixes pixels and fixes H, W.
    layer, x = normkit.ChannelLayerNorm(4), torch.randn(2, 4, 3, 5)
    other = x.clone()
    other[0, :, 1, 2] += 5
    changed = (layer(x) - layer(other)).abs().sum(1) > 0
    assert changed.nonzero().tolist() == [[0, 1, 2]]
    assert [tuple(p.shape) for p in layer.parameters()] == [(4,), (4,)]
    assert torch.equal(layer(x[..., :2]), layer(x)[..., :2])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_images_of_large_values(dtype: torch.dtype) -> None:
    # facebookresearch/ConvNeXt#80: the formula written out in float16 overflows above 256.
    x = torch.randn(2, 8, 3, 3) * 1e4
    got = normkit.ChannelLayerNorm(8).to(dtype)(x.to(dtype))
    want = normkit.ChannelLayerNorm(8).double()(x.to(dtype).double())
    torch.testing.assert_close(got, want.to(dtype))


def test_starts_as_it_says() -> None:
    layer = normkit.ChannelLayerNorm(3)
    assert (layer.weight.tolist(), layer.bias.tolist()) == ([1.0] * 3, [0.0] * 3)  # type: ignore[union-attr]
    assert normkit.ChannelLayerNorm(3, zero_centred=True).weight.tolist() == [0.0] * 3  # type: ignore[union-attr]
    assert normkit.ChannelLayerNorm(3, bias=False).bias is None
    plain = normkit.ChannelLayerNorm(3, elementwise_affine=False)
    assert not list(plain.state_dict())


def test_repr_shows_what_is_set() -> None:
    text = "ChannelLayerNorm(4, eps=1e-06, elementwise_affine=True, bias=True"
    assert repr(normkit.ChannelLayerNorm(4)) == f"{text})"
    layer = normkit.ChannelLayerNorm(4, channel_axis=-1, eps_place="clamp", zero_centred=True)
    assert repr(layer) == f"{text}, channel_axis=-1, eps_place='clamp', zero_centred=True)"


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_options_of_the_layer_arrive(options: dict[str, Any]) -> None:
    x = torch.randn(2, 4, 3)
    layer = normkit.ChannelLayerNorm(4, **options)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_()
    want = channel_layer_norm(x, layer.weight, layer.bias, **options)
    assert torch.equal(layer(x), want)


@pytest.mark.parametrize(
    "make",
    [
        lambda: normkit.ChannelLayerNorm(8, channel_axis=-1, zero_centred=True),
        lambda: normkit.ChannelLayerNorm(8),  # over the positions, of which there are 8 too
        lambda: normkit.GroupNorm(2, 8),
        lambda: normkit.InstanceNorm1d(8, affine=True),
    ],
    ids=["last", "first", "group", "instance"],
)
def test_torchs_encoder_layer_calls_it_in_evaluation_too(make: Any) -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    layer.norm1, layer.norm2 = make(), make()
    scramble(layer.norm1)  # with gains of 1, some of them compute LayerNorm on this square input
    scramble(layer.norm2)
    x = torch.randn(3, 8, 8)
    want = layer(x)
    with torch.no_grad():
        torch.testing.assert_close(layer.eval()(x), want)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: normkit.ChannelLayerNorm(4)(torch.ones(2, 3, 4)),
            ShapeError,
            "ChannelLayerNorm: axis 1 of x must hold the 4 channels; x is (2, 3, 4). "
            "channel_axis names it.",
        ),
        (
            lambda: normkit.ChannelLayerNorm(4, eps_place="middle"),  # type: ignore[arg-type]
            OptionError,
            "ChannelLayerNorm: eps_place must be 'inside', 'outside' or 'clamp'; "
            "eps_place is 'middle'.",
        ),
        (
            lambda: channel_layer_norm(torch.ones(4)),
            ShapeError,
            "channel_layer_norm: channel_axis must be an axis of x, which has 1; it is 1.",
        ),
        (
            lambda: channel_layer_norm(torch.ones(2, 4), torch.ones(2)),
            ShapeError,
            "channel_layer_norm: weight must have one value per channel, (4,); it is (2,). "
            "channel_axis names the channels.",
        ),
        (
            lambda: channel_layer_norm(torch.ones(2, 4), impl="cuda"),
            OptionError,
            "channel_layer_norm: impl must be 'auto', 'torch' or 'cpu'; impl is 'cuda'.",
        ),
    ],
)
def test_wrong_input_gets_a_sentence(call: object, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        call()  # type: ignore[operator]
