"""NormLinear as a module: whose parameters it has, and when it calls its submodules."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize, prune

import normkit
from normkit.errors import NormkitError, OptionError, ShapeError
from normkit.measure import saved_bytes
from tests.norms.cases import scramble

NORMS: dict[str, nn.Module] = {
    "layer_norm": normkit.LayerNorm(4, eps=0.1, bias=False),
    "layer_norm_options": normkit.LayerNorm((3, 4), eps_place="outside", zero_centred=True),
    "rms_norm": normkit.RMSNorm(4),
    "rms_norm_options": normkit.RMSNorm(
        4, eps=0.5, bias=True, eps_place="clamp", rounding="before_gain", fraction=0.5
    ),
    "rms_norm_dtype": normkit.RMSNorm(4, elementwise_affine=False, output_dtype="promoted"),
}


def made(norm: nn.Module, linear: Any) -> normkit.NormLinear:
    layer = normkit.NormLinear.of(copy.deepcopy(norm), linear)
    scramble(layer)
    return layer


@pytest.mark.parametrize("norm", NORMS.values(), ids=NORMS)
def test_is_its_submodules_called_one_after_the_other(norm: nn.Module) -> None:
    layer = made(norm, nn.Linear(4, 5))
    x = torch.randn(2, 3, 4)
    dout, found = torch.randn(2, 3, 5), []
    for f in (layer, lambda t: layer.linear(layer.norm(t))):
        leaf = x.clone().requires_grad_()
        out = f(leaf)
        found.append([out, *torch.autograd.grad(out, [leaf, *layer.parameters()], dout)])
    for a, b in zip(*found, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("norm", [nn.LayerNorm(4), nn.RMSNorm(4)], ids=lambda n: type(n).__name__)
def test_takes_the_norms_of_torch(norm: nn.Module) -> None:
    layer = made(norm, nn.Linear(4, 5, bias=False))
    x = torch.randn(2, 3, 4, requires_grad=True)
    torch.testing.assert_close(layer(x), layer.linear(layer.norm(x)))
    assert saved_bytes(layer, x).new == 0


def test_several_linear_layers_share_the_norm() -> None:
    layer = normkit.NormLinear(4, (5, 2, 3), norm="rms_norm")
    x = torch.randn(2, 4, requires_grad=True)
    outs = layer(x)
    assert isinstance(outs, tuple)
    assert isinstance(layer.linear, nn.ModuleList)
    for out, linear in zip(outs, layer.linear, strict=True):
        assert torch.equal(out, linear(layer.norm(x)))
    assert list(layer.state_dict())[:3] == ["norm.weight", "linear.0.weight", "linear.0.bias"]
    assert saved_bytes(layer, x).new == 0


def test_constructor_and_state_dict() -> None:
    layer = normkit.NormLinear(4, 6, False, norm="layer_norm", eps=0.3, zero_centred=True)
    assert repr(layer.norm) == repr(normkit.LayerNorm(4, eps=0.3, zero_centred=True))
    assert repr(layer.linear) == repr(nn.Linear(4, 6, bias=False))
    both = nn.Sequential()
    both.add_module("norm", normkit.LayerNorm(4))
    both.add_module("linear", nn.Linear(4, 6, bias=False))
    assert list(layer.state_dict()) == list(both.state_dict())
    layer.load_state_dict(both.state_dict())
    half = normkit.NormLinear(4, [6, 6], dtype=torch.bfloat16, device="meta", norm="rms_norm")
    assert {(p.dtype, p.is_meta) for p in half.parameters()} == {(torch.bfloat16, True)}


def test_reset_after_meta() -> None:
    with torch.device("meta"):
        layer = normkit.NormLinear(4, (6, 6), zero_centred=True)
    layer.to_empty(device="cpu")
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.fill_(7)
    layer.reset_parameters()
    assert layer.norm.weight.abs().sum() == 0  # type: ignore[union-attr, operator]
    for linear in layer.linear:  # type: ignore[union-attr]
        assert linear.weight.abs().max() <= 0.5  # uniform in 1 / sqrt(4)
        assert linear.bias.abs().max() <= 0.5


def test_of_shares_what_it_is_given() -> None:
    norm, linear = normkit.RMSNorm(4), nn.Linear(4, 6)
    layer = normkit.NormLinear.of(norm, linear)
    assert layer.norm is norm
    assert layer.linear is linear
    q, k = nn.Linear(4, 6), nn.Linear(4, 2)
    both = normkit.NormLinear.of(norm, (q, k))
    assert list(both.linear) == [q, k]  # type: ignore[arg-type]
    pairs = nn.ModuleList([q, k])
    assert normkit.NormLinear.of(norm, pairs).linear is pairs


class Doubled(nn.Linear):
    """An adapter: a linear layer that does something more."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 (torch's name)
        return 2 * super().forward(input)


class OwnNorm(nn.LayerNorm):
    """A norm that may compute anything."""


REFUSED: list[tuple[Any, type[NormkitError], str]] = [
    (
        lambda: normkit.NormLinear.of(OwnNorm(4), nn.Linear(4, 6)),
        OptionError,
        "norm must be a LayerNorm or RMSNorm of normkit or torch, and no subclass; it is a "
        "OwnNorm.",
    ),
    (
        lambda: normkit.NormLinear.of(nn.LayerNorm(4), [nn.Linear(4, 6), Doubled(4, 6)]),
        OptionError,
        "linear must be an nn.Linear, or 2 or 3 of them, and no subclass; it is a Doubled.",
    ),
    (
        lambda: normkit.NormLinear.of(nn.LayerNorm((6, 4)), nn.Linear(6, 4)),
        ShapeError,
        "in_features must be the width of the norm, 4; it is 6.",
    ),
    (
        lambda: normkit.NormLinear(4, [1, 2, 3, 4]),
        OptionError,
        "one norm takes from 1 to 3 linear layers; there are 4. Try one of all features, and "
        "out.split(sizes, -1).",
    ),
    (
        lambda: normkit.NormLinear(4, 6, norm="scale_norm"),  # type: ignore[arg-type]
        OptionError,
        "norm must be 'layer_norm' or 'rms_norm'; norm is 'scale_norm'.",
    ),
    (
        lambda: normkit.NormLinear(4, 6, fraction=0.5),
        OptionError,
        "options of norm='layer_norm' are 'elementwise_affine', 'eps', 'eps_place' or "
        "'zero_centred'; 'fraction' is none of them.",
    ),
]


@pytest.mark.parametrize(("make", "error", "text"), REFUSED, ids=range(len(REFUSED)))
def test_refusals(make: Any, error: type[NormkitError], text: str) -> None:
    with pytest.raises(error) as raised:
        make()
    assert str(raised.value) == f"NormLinear: {text}"


# What hangs on a submodule is never left out.

HOOKS = {
    "forward": lambda m, f: m.register_forward_hook(lambda *_: f()),
    "forward_pre": lambda m, f: m.register_forward_pre_hook(lambda *_: f()),
    "backward": lambda m, f: m.register_full_backward_hook(lambda *_: f()),
    "backward_pre": lambda m, f: m.register_full_backward_pre_hook(lambda *_: f()),
}


@pytest.mark.parametrize("which", ["norm", "linear.1"])
@pytest.mark.parametrize("add", HOOKS.values(), ids=HOOKS)
def test_hooks_of_submodules_are_called(add: Any, which: str) -> None:
    layer = normkit.NormLinear(4, (6, 2))
    seen: list[int] = []
    x = torch.randn(2, 4, requires_grad=True)
    handle = add(layer.get_submodule(which), lambda: seen.append(1))
    layer(x)[1].sum().backward()
    assert seen == [1]
    handle.remove()
    layer(x)[1].sum().backward()
    assert seen == [1]
    assert saved_bytes(layer, x).new == 0  # fused again


@pytest.mark.parametrize("kind", ["forward_hook", "forward_pre_hook", "full_backward_hook"])
def test_hooks_of_all_modules_are_called(kind: str) -> None:
    seen: list[str] = []
    register = getattr(nn.modules.module, f"register_module_{kind}")
    handle = register(lambda module, *_: seen.append(type(module).__name__))
    try:
        normkit.NormLinear(4, 6)(torch.randn(2, 4, requires_grad=True)).sum().backward()
    finally:
        handle.remove()
    assert sorted(seen) == ["LayerNorm", "Linear", "NormLinear"]


def test_what_is_put_in_the_place_of_a_submodule_is_called() -> None:
    layer, x = normkit.NormLinear(4, 6), torch.randn(2, 4)
    plain = layer(x)
    doubled = Doubled(4, 6)
    doubled.load_state_dict(layer.linear.state_dict())
    layer.linear = doubled
    assert torch.equal(layer(x), 2 * plain)
    layer.norm.forward = lambda t: torch.zeros_like(t)  # type: ignore[method-assign]
    assert torch.equal(layer(x)[0], 2 * doubled.bias.detach())


def test_parametrized_and_pruned_weights_are_used() -> None:
    class Negative(nn.Module):
        def forward(self, weight: Tensor) -> Tensor:
            return -weight

    layer, x = normkit.NormLinear(4, 6, bias=False), torch.randn(2, 4)
    plain = layer(x)
    parametrize.register_parametrization(layer.linear, "weight", Negative())
    assert torch.equal(layer(x), -plain)
    layer = normkit.NormLinear(4, 6, bias=False)
    prune.custom_from_mask(layer.linear, "weight", torch.zeros(6, 4))
    assert layer(x).abs().sum() == 0


def test_hooks_survive_copies_and_compilation() -> None:
    layer, x = normkit.NormLinear(4, 6, norm="rms_norm"), torch.randn(2, 4)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(other(x), layer(x))
    layer.linear.register_forward_hook(lambda module, args, out: 3 * out)
    f = torch.compile(layer, fullgraph=True, backend="eager")
    torch.testing.assert_close(
        f(x), 3 * nn.functional.linear(layer.norm(x), *layer.linear.parameters())
    )


def test_nested_tensors_go_through_the_modules() -> None:
    layer = normkit.NormLinear(4, 6)
    rows = [torch.randn(3, 4), torch.randn(1, 4)]
    out = layer(torch.nested.nested_tensor(rows, layout=torch.jagged))
    for got, row in zip(out.unbind(), rows, strict=True):
        torch.testing.assert_close(got, layer(row))
