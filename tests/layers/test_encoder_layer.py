"""Norms inside torch's Transformer encoder, which in evaluation may compute LayerNorm itself.

pytorch#116385, #158014: without gradients its fused kernel reads weight, bias and eps of norm1 and
norm2 and never calls them.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import normkit
from tests.norms.cases import scramble

WIDTH = 16
TOKEN_NORMS: dict[str, Callable[[], nn.Module]] = {
    "LayerNorm": lambda: normkit.LayerNorm(WIDTH),
    "LayerNorm, no bias": lambda: normkit.LayerNorm(WIDTH, bias=False),
    "LayerNorm, plain": lambda: normkit.LayerNorm(WIDTH, elementwise_affine=False),
    "LayerNorm, 1 + w": lambda: normkit.LayerNorm(WIDTH, zero_centred=True),
    "LayerNorm, eps outside": lambda: normkit.LayerNorm(WIDTH, eps=0.3, eps_place="outside"),
    "LayerNorm, clamp": lambda: normkit.LayerNorm(WIDTH, eps=2.0, eps_place="clamp"),
    "RMSNorm": lambda: normkit.RMSNorm(WIDTH, eps=1e-6),
    "RMSNorm, bias": lambda: normkit.RMSNorm(WIDTH, eps=1e-6, bias=True),
    "RMSNorm, eps None": lambda: normkit.RMSNorm(WIDTH),
    "RMSNorm, 1 + w": lambda: normkit.RMSNorm(WIDTH, eps=1e-6, bias=True, zero_centred=True),
    "RMSNorm, Llama": lambda: normkit.RMSNorm(WIDTH, eps=1e-6, rounding="before_gain"),
    "RMSNorm, fraction": lambda: normkit.RMSNorm(WIDTH, eps=1e-6, bias=True, fraction=0.5),
    "ChannelLayerNorm": lambda: normkit.ChannelLayerNorm(WIDTH, channel_axis=-1),
    "ScaleNorm": lambda: normkit.ScaleNorm(WIDTH),
    "DynamicTanh": lambda: normkit.DynamicTanh(WIDTH),
    "DynamicErf": lambda: normkit.DynamicErf(WIDTH),
    "NoNorm": lambda: normkit.NoNorm(WIDTH),
}
token_norm = pytest.mark.parametrize("build", TOKEN_NORMS.values(), ids=TOKEN_NORMS)


def encoder_layer(build: Callable[[], nn.Module], **options: Any) -> nn.TransformerEncoderLayer:
    """An encoder layer whose two norms are what ``build`` makes, with random parameters."""
    layer = nn.TransformerEncoderLayer(WIDTH, 2, 32, dropout=0.0, batch_first=True, **options)
    layer.norm1, layer.norm2 = build(), build()  # type: ignore[assignment]
    scramble(layer.norm1)
    scramble(layer.norm2)
    return layer


def without_gradients(model: nn.Module, x: Tensor, **kwargs: Any) -> Tensor:
    """What a user gets in evaluation, where the fused kernel waits."""
    with torch.no_grad():
        y: Tensor = model.eval()(x, **kwargs)
    return y


@token_norm
@pytest.mark.parametrize("norm_first", [False, True], ids=["post", "pre"])
def test_training_and_evaluation_agree(build: Callable[[], nn.Module], norm_first: bool) -> None:
    layer = encoder_layer(build, norm_first=norm_first)
    x = torch.randn(2, 5, WIDTH)
    torch.testing.assert_close(without_gradients(layer, x), layer.train()(x), rtol=1e-5, atol=1e-5)


@token_norm
def test_copies_agree_too(build: Callable[[], nn.Module]) -> None:
    layer = encoder_layer(build)
    x = torch.randn(2, 5, WIDTH)
    want = layer.train()(x)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        torch.testing.assert_close(without_gradients(other, x), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["MaskedBatchNorm", "PowerNorm"])
def test_batch_statistics_in_evaluation(name: str) -> None:
    layer = encoder_layer(lambda: getattr(normkit, name)(WIDTH))
    x = torch.randn(2, 5, WIDTH)
    torch.testing.assert_close(without_gradients(layer, x), layer(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "build", [lambda: normkit.BatchNorm1d(WIDTH), lambda: normkit.GroupNorm(2, WIDTH)]
)
def test_a_norm_that_means_something_else_there_raises_in_both_modes(
    build: Callable[[], nn.Module],
) -> None:
    # (B, T, D) is no input of a norm with D channels; the fused kernel would not notice.
    layer = encoder_layer(build)
    for model in (layer.train(), layer.eval()):
        with torch.no_grad(), pytest.raises(normkit.errors.ShapeError):
            model(torch.randn(2, 5, WIDTH))


def test_a_plain_layer_norm_leaves_the_fused_kernel_on() -> None:
    layer = encoder_layer(lambda: normkit.LayerNorm(WIDTH))
    called: list[str] = []
    layer.norm1.forward = lambda x: called.append("norm1") or x  # type: ignore[method-assign]
    without_gradients(layer, torch.randn(2, 5, WIDTH))
    assert not called


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
@pytest.mark.parametrize(
    "build", [b for name, b in TOKEN_NORMS.items() if name != "ChannelLayerNorm"]
)
def test_whole_encoder_with_padding(build: Callable[[], nn.Module]) -> None:
    # With a padding mask the encoder hands nested tensors to its layers.
    encoder = nn.TransformerEncoder(encoder_layer(build), 2)
    x = torch.randn(2, 5, WIDTH)
    padded = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    want = encoder.train()(x, src_key_padding_mask=padded)
    got = without_gradients(encoder, x, src_key_padding_mask=padded)
    torch.testing.assert_close(got[~padded], want[~padded], rtol=1e-5, atol=1e-5)


@token_norm
def test_hooks_still_work(build: Callable[[], nn.Module]) -> None:
    norm, seen = build(), []
    x = torch.randn(3, WIDTH)
    handle = norm.register_forward_hook(lambda module, args, y: seen.append(y))
    y = norm(x)
    assert seen[0] is y
    handle.remove()
    norm(x)
    assert len(seen) == 1


@token_norm
def test_compiles_and_exports_inside(build: Callable[[], nn.Module]) -> None:
    layer = encoder_layer(build)
    x = torch.randn(2, 5, WIDTH)
    want = layer.train()(x)
    layer.eval()
    with torch.no_grad():
        program = torch.export.export(layer, (x,))
        torch.testing.assert_close(program.module()(x), want, rtol=1e-5, atol=1e-5)
        compiled = torch.compile(layer, backend="eager")
        torch.testing.assert_close(compiled(x), want, rtol=1e-5, atol=1e-5)
    torch._dynamo.reset()


@pytest.mark.parametrize("name", ["LayerNorm", "RMSNorm", "ScaleNorm", "DynamicTanh"])
def test_jagged_tensors(name: str) -> None:
    norm = getattr(normkit, name)(WIDTH)
    scramble(norm)
    parts = [torch.randn(3, WIDTH), torch.randn(5, WIDTH)]
    x = torch.nested.nested_tensor(parts, layout=torch.jagged, requires_grad=True)
    y = norm(x)
    for part, want in zip(y.unbind(), parts, strict=True):
        torch.testing.assert_close(part, norm(want))
    y.values().sum().backward()
    assert x.grad is not None
