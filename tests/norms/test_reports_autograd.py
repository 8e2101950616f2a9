"""Public reports of wrong or missing gradients of norms: each is a test here."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import normkit
from normkit import functional
from normkit.errors import StateError
from tests.norms.named import every_batch_norm, every_layer, every_norm, make, sample, token_norm

F64 = torch.float64


def along(f: Callable[[Tensor], Tensor], x: Tensor, v: Tensor, order: int) -> float:
    """The derivative of <v, f(x + t v)> of some order in t, by create_graph=True each time."""
    x = x.detach().requires_grad_()
    s = (f(x) * v).sum()
    for _ in range(order):
        (dx,) = torch.autograd.grad(s, x, create_graph=True)
        s = (dx * v).sum()
    return s.item()


def plain(x: Tensor, axis: int, center: bool) -> Tensor:
    """The formula, which autograd differentiates by itself."""
    around = x - x.mean(axis, keepdim=True) if center else x
    return around / (around.square().mean(axis, keepdim=True) + 0.1).sqrt()


# Our layer, torch's function where it is wrong from order 3 on, axis, center.
THIRD_ORDER: dict[str, tuple[nn.Module, Callable[[Tensor], Tensor] | None, int, bool]] = {
    "layer_norm": (
        normkit.LayerNorm(4, 0.1, elementwise_affine=False),
        lambda x: nn.functional.layer_norm(x, (4,), eps=0.1),
        -1,
        True,
    ),
    "batch_norm": (
        normkit.BatchNorm1d(4, 0.1, affine=False, track_running_stats=False),
        lambda x: nn.functional.batch_norm(x, None, None, training=True, eps=0.1),
        0,
        True,
    ),
    "rms_norm": (normkit.RMSNorm(4, 0.1, elementwise_affine=False), None, -1, False),
}


@pytest.mark.parametrize("name", THIRD_ORDER)
def test_derivatives_up_to_the_fourth(name: str) -> None:
    # pytorch#175754, #176234, #186256: a double backward that takes mean and 1/std for constants
    # gives 4.91 for -1.72 (LayerNorm), -25.9 for -15.5 (BatchNorm), without a word.
    ours, torchs, axis, center = THIRD_ORDER[name]
    x, v = torch.randn(2, 5, 4, dtype=torch.float64)
    for order in (1, 2, 3, 4):
        want = along(lambda t: plain(t, axis, center), x, v, order)
        assert along(ours, x, v, order) == pytest.approx(want, rel=1e-9)
    if torchs is not None:
        third = along(lambda t: plain(t, axis, center), x, v, 3)
        assert along(torchs, x, v, 3) != pytest.approx(third, rel=0.01)


@every_layer
def test_gradient_is_there_for_contiguous_and_strided_input(name: str) -> None:
    # apex#410, candle#2168, #3011: a fused path without a backward cut the graph.
    layer, x = make(name, dtype=torch.float64), sample(name, torch.float64)
    dy, v, results = sample(name, torch.float64), sample(name, torch.float64), []
    for view in (x, x.transpose(0, -1).contiguous().transpose(0, -1)):
        leaf = view.detach().requires_grad_()
        y = layer(leaf.clone(memory_format=torch.preserve_format))
        assert y.requires_grad
        (dx,) = torch.autograd.grad(y, leaf, dy, create_graph=True)
        assert dx.abs().max() > 0
        second = torch.autograd.grad((dx * v).sum(), leaf)[0] if name != "NoNorm" else dx
        results.append((y, dx, second))
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@every_batch_norm
@pytest.mark.parametrize("transform", [torch.func.jacrev, torch.func.vmap, torch.func.jacfwd])
def test_running_statistics_under_functional_transforms(
    name: str, transform: Callable[..., Any]
) -> None:
    # functorch#273, #986, #867, pytorch#85533: an obscure error about an in-place update.
    layer, x = make(name), sample(name)
    before = {key: value.clone() for key, value in layer.state_dict().items()}
    text = (
        f"{name}: running statistics cannot be written inside torch.func or forward-mode "
        "transforms; the layer is in training mode. Call normkit.functional.batch_norm, which "
        "returns the new ones, or .eval() first."
    )
    with pytest.raises(StateError, match=f"^{re.escape(text)}$"):
        transform(layer)(torch.stack([x, x]) if transform is torch.func.vmap else x)
    for key, value in layer.state_dict().items():
        assert torch.equal(value, before[key]), key
    transform(layer.eval())(torch.stack([x, x]) if transform is torch.func.vmap else x)


def test_the_stateless_form_under_functional_transforms() -> None:
    # What that sentence names: functorch#273, #986.
    mean, var = torch.zeros(4, dtype=F64), torch.ones(4, dtype=F64)

    def step(x: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None]:
        out = functional.batch_norm(x, mean, var, training=True)
        return out.y, out.running_mean, out.running_var

    x = torch.randn(2, 3, 4, dtype=F64)
    together = torch.func.vmap(step)(x)
    layer = normkit.BatchNorm1d(4, dtype=F64)
    for i in range(2):
        layer.reset_parameters()
        y = layer(x[i])
        for got, want in zip(together, (y, layer.running_mean, layer.running_var), strict=True):
            torch.testing.assert_close(got[i], want, rtol=1e-12, atol=1e-12)
    jacobian = torch.func.jacrev(lambda t: step(t)[0])(x[0])
    want = torch.autograd.functional.jacobian(layer, x[0])
    torch.testing.assert_close(jacobian, want, rtol=1e-9, atol=1e-9)
    assert jacobian.abs().max() > 0.1


@token_norm
def test_token_norms_per_sample(name: str) -> None:
    # functorch#867, pytorch#85533: vmap, and a gradient for each sample.
    layer, x = make(name, dtype=F64), sample(name, F64)
    parameters = dict(layer.named_parameters())

    def loss(values: dict[str, Tensor], row: Tensor) -> Tensor:
        y: Tensor = torch.func.functional_call(layer, values, (row,))
        return y.pow(3).sum()

    assert torch.equal(torch.func.vmap(layer)(x), layer(x))
    together = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, x)
    for i, row in enumerate(x):
        alone = torch.autograd.grad(loss(parameters, row), list(parameters.values()))
        for got, want in zip(together.values(), alone, strict=True):
            torch.testing.assert_close(got[i], want, rtol=1e-12, atol=1e-12)


@every_norm
def test_frozen_weight_or_bias_or_input(name: str) -> None:
    # cs249r_book#1504: a gradient for what needs none, or None for what needs one.
    for frozen in ("weight", "bias", "x", None):
        layer, x = make(name, bias=True), sample(name).requires_grad_(frozen != "x")
        for parameter in ("weight", "bias"):
            getattr(layer, parameter).requires_grad_(frozen != parameter)
        layer(x).backward(sample(name))
        for leaf, tensor in (("weight", layer.weight), ("bias", layer.bias), ("x", x)):
            assert (tensor.grad is None) == (leaf == frozen)


@pytest.fixture
def deterministic() -> Iterator[None]:
    """torch's deterministic mode."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@every_norm
def test_deterministic_and_inference_mode(name: str, deterministic: None) -> None:
    # pytorch#86590.
    x, dy = sample(name), sample(name)
    runs = []
    for _ in range(2):
        layer, leaf = make(name), x.clone().requires_grad_()
        y = layer(leaf)
        y.backward(dy)
        runs.append((y, leaf.grad, layer.weight.grad))
    assert all(torch.equal(a, b) for a, b in zip(*runs, strict=True))
    with torch.inference_mode():
        assert torch.equal(make(name)(x), runs[0][0])


@token_norm
def test_a_row_does_not_depend_on_its_batch(name: str) -> None:
    # cs249r_book#1504: batch invariance, bit for bit.
    layer, x = getattr(normkit, name)(768), torch.randn(257, 768)
    y = layer(x)
    for i in (0, 128, 256):
        assert torch.equal(layer(x[i : i + 1]), y[i : i + 1])


@every_norm
def test_the_sum_of_a_centred_norm_has_no_gradient(name: str) -> None:
    # pytorch#63541: read as broken autograd. RMSNorm subtracts no mean, so there it is not 0.
    x = sample(name, F64).requires_grad_()
    make(name, dtype=F64)(x).sum().backward()
    assert x.grad is not None
    largest = x.grad.abs().max().item()
    assert largest > 0.1 if name == "RMSNorm" else largest < 1e-12
