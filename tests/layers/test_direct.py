"""Layers without gradients call the compiled kernel directly, and only where that is the same."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import normkit
from normkit.errors import DtypeError, ShapeError
from normkit.ops import direct as room
from normkit.ops.direct import direct

LAYERS = {
    "layer_norm": lambda **o: normkit.LayerNorm(8, **o),
    "layer_norm_without_bias": lambda **o: normkit.LayerNorm(8, bias=False, **o),
    "rms_norm": lambda **o: normkit.RMSNorm(8, eps=1e-6, **o),
}
every_layer = pytest.mark.parametrize("name", LAYERS)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ops that a layer got an answer from directly."""
    seen: list[str] = []

    def counting(op: str, *args: Any) -> Tensor | None:
        y = direct(op, *args)
        if y is not None:
            seen.append(op)
        return y

    for file in ("layer_norm", "rms_norm"):
        monkeypatch.setattr(f"normkit.layers.{file}.direct", counting)
    return seen


def made(name: str, **options: Any) -> nn.Module:
    layer = LAYERS[name](**options)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(1 + torch.randn(8))
    return layer


@every_layer
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_the_same_bits_as_with_gradients(name: str, dtype: torch.dtype, calls: list[str]) -> None:
    layer, x = made(name, dtype=dtype), torch.randn(3, 8).to(dtype)
    want = layer(x).detach()
    assert calls == []
    with torch.no_grad():
        assert torch.equal(layer(x), want)
    assert calls == [name.removesuffix("_without_bias")]
    with torch.inference_mode():
        assert torch.equal(layer(x), want)


@pytest.mark.parametrize(
    "options", [{"eps_place": "outside"}, {"zero_centred": True}, {"eps_place": "clamp"}], ids=str
)
def test_options_take_the_other_path(options: Any, calls: list[str]) -> None:
    for name in ("layer_norm", "rms_norm"):
        layer, x = made(name, **options), torch.randn(3, 8)
        want = layer(x).detach()
        with torch.no_grad():
            assert torch.equal(layer(x), want)
    assert calls == []


@every_layer
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_two_axes_and_unusual_tensors_take_the_other_path(name: str, calls: list[str]) -> None:
    layer, x = made(name), torch.randn(3, 8)
    with torch.no_grad():
        want = layer(x)
        calls.clear()
        nested = torch.nested.nested_tensor([x, x[:2]])
        assert torch.equal(layer(nested).unbind()[0], want)
        assert torch.equal(torch.vmap(layer)(x).round(decimals=5), want.round(decimals=5))
        assert type(layer(x.as_subclass(_Sub))) is _Sub
        assert layer.double()(x).dtype == torch.float32  # a float64 weight beside float32 x
    assert calls == []
    assert normkit.LayerNorm((2, 4))(torch.randn(3, 2, 4)).shape == (3, 2, 4)


class _Sub(Tensor):
    pass


@every_layer
def test_forward_mode_keeps_its_tangent(name: str) -> None:
    layer, x = made(name), torch.randn(3, 8)
    with torch.no_grad(), torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, torch.ones_like(x))
        y = layer(dual)
        tangent = torch.autograd.forward_ad.unpack_dual(y).tangent
    assert tangent is not None


@every_layer
def test_bad_input_gets_its_sentence(name: str) -> None:
    layer = made(name)
    with torch.no_grad():
        with pytest.raises(ShapeError, match="the last axis of x must be 8"):
            layer(torch.randn(3, 7))
        with pytest.raises(DtypeError, match="x must be a floating-point tensor"):
            layer(torch.ones(3, 8, dtype=torch.long))
        with pytest.raises(ShapeError):
            layer(torch.tensor(1.0))


def test_without_a_library_the_layer_still_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_overloads", {})
    monkeypatch.setattr(room.cpu, "loaded", lambda: None)
    with torch.no_grad():
        assert direct("layer_norm", torch.randn(2, 8), {"weight": torch.ones(8)}, 1e-5) is None
