"""A snapshot names every planted change, and nothing else, and puts back what it can."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import nn

from normkit.measure import Snapshot

Plant = Callable[[nn.Sequential], object]


def model() -> nn.Sequential:
    """Parameters, buffers, a gradient, two tied parameters and a NaN."""
    net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Linear(3, 3), nn.Dropout(0.5))
    net[2].weight = net[0].weight
    net[0].bias.grad = torch.tensor([1.0, math.nan, -0.0])
    net[1].running_mean.fill_(math.nan)
    return net


def nothing(*_: object) -> None:
    """Be a hook."""


def replace_parameter(net: nn.Sequential) -> None:
    net[2].bias = nn.Parameter(net[2].bias.detach().clone())


def set_one(net: nn.Sequential) -> None:
    net[2].bias.data[1] = 7.0


def flip_sign_of_zero(net: nn.Sequential) -> None:
    net[0].bias.grad[2] = 0.0


def untie(net: nn.Sequential) -> None:
    net[2].weight = nn.Parameter(net[2].weight.detach().clone())


def tie(net: nn.Sequential) -> None:
    net[2].bias.data = net[0].bias.data


CHANGES: dict[str, tuple[Plant, list[str]]] = {
    "value": (set_one, ["parameter 2.bias: 1 of 3 elements changed."]),
    "buffer": (
        lambda net: net[1].running_mean.zero_(),
        ["buffer 1.running_mean: 3 of 3 elements changed."],
    ),
    "scalar buffer": (
        lambda net: net[1].num_batches_tracked.add_(1),
        ["buffer 1.num_batches_tracked: 1 of 1 elements changed."],
    ),
    "dtype": (
        lambda net: net[2].bfloat16(),
        [  # the tied weight is found first where it first stands
            "parameter 0.weight: dtype was torch.float32, is torch.bfloat16.",
            "parameter 2.bias: dtype was torch.float32, is torch.bfloat16.",
            "parameter 2.weight: dtype was torch.float32, is torch.bfloat16.",
        ],
    ),
    "device": (
        lambda net: net[1].register_buffer("running_mean", torch.empty(3, device="meta")),
        [
            "buffer 1.running_mean was replaced by another tensor.",
            "buffer 1.running_mean: device was cpu, is meta.",
        ],
    ),
    "shape": (
        lambda net: setattr(net[2].bias, "data", torch.zeros(4)),
        ["parameter 2.bias: shape was (3,), is (4,)."],
    ),
    "other tensor": (
        replace_parameter,
        ["parameter 2.bias was replaced by another tensor."],
    ),
    "removed parameter": (
        lambda net: net[2].register_parameter("bias", None),
        ["parameter 2.bias was removed."],
    ),
    "added parameter": (
        lambda net: net[3].register_parameter("scale", nn.Parameter(torch.ones(1))),
        ["parameter 3.scale was added."],
    ),
    "added buffer": (
        lambda net: net[3].register_buffer("mask", torch.ones(1)),
        ["buffer 3.mask was added."],
    ),
    "requires_grad": (
        lambda net: net[2].bias.requires_grad_(False),
        ["parameter 2.bias: requires_grad was True, is False."],
    ),
    "new gradient": (
        lambda net: setattr(net[2].bias, "grad", torch.zeros(3)),
        ["gradient of parameter 2.bias: there was none, there is one now."],
    ),
    "lost gradient": (
        lambda net: setattr(net[0].bias, "grad", None),
        ["gradient of parameter 0.bias: there was one, there is none now."],
    ),
    "gradient": (
        flip_sign_of_zero,
        ["gradient of parameter 0.bias: 1 of 3 elements changed."],
    ),
    "tensor hook": (
        lambda net: net[2].bias.register_hook(nothing),
        ["parameter 2.bias: its tensor hooks changed."],
    ),
    "accumulation hook": (
        lambda net: net[2].bias.register_post_accumulate_grad_hook(nothing),
        ["parameter 2.bias: its tensor hooks changed."],
    ),
    "mode": (lambda net: net[3].eval(), ["module 3: training was True, is False."]),
    "mode of the root": (
        lambda net: setattr(net, "training", False),
        ["the model: training was True, is False."],
    ),
    "attribute": (
        lambda net: setattr(net[1], "eps", 1e-3),
        ["module 1: attribute eps was 1e-05, is 0.001."],
    ),
    "type of an attribute": (
        lambda net: setattr(net[3], "p", True),
        ["module 3: attribute p was 0.5, is True."],
    ),
    "added attribute": (
        lambda net: setattr(net[1], "forward", nothing),
        ["module 1: attribute forward was added."],
    ),
    "removed attribute": (
        lambda net: delattr(net[1], "momentum"),
        ["module 1: attribute momentum was removed."],
    ),
    "class": (
        lambda net: setattr(net[3], "__class__", nn.AlphaDropout),
        ["module 3: its class was Dropout, is AlphaDropout."],
    ),
    "replaced module": (
        lambda net: net.__setitem__(3, nn.Dropout(0.5)),
        ["module 3 was replaced: it was Dropout, is another Dropout."],
    ),
    "added module": (
        lambda net: net[3].add_module("inner", nn.ReLU()),
        ["module 3.inner was added."],
    ),
    "removed module": (lambda net: net.__delitem__(3), ["module 3 was removed."]),
    "untied": (
        untie,
        [
            "parameter 2.weight was replaced by another tensor.",
            "0.weight, 2.weight shared one storage, and no longer all do.",
        ],
    ),
    "tied": (
        tie,
        [
            "parameter 2.bias: 3 of 3 elements changed.",
            "0.bias, 2.bias share one storage now.",
        ],
    ),
}

HOOKS: dict[str, Callable[[nn.Module], object]] = {
    "forward hooks": lambda m: m.register_forward_hook(nothing),
    "forward pre-hooks": lambda m: m.register_forward_pre_hook(nothing),
    "backward hooks": lambda m: m.register_full_backward_hook(nothing),
    "backward pre-hooks": lambda m: m.register_full_backward_pre_hook(nothing),
    "state_dict hooks": lambda m: m.register_state_dict_post_hook(nothing),
    "state_dict pre-hooks": lambda m: m.register_state_dict_pre_hook(nothing),
    "load_state_dict pre-hooks": lambda m: m.register_load_state_dict_pre_hook(nothing),
    "load_state_dict post-hooks": lambda m: m.register_load_state_dict_post_hook(nothing),
}


def test_an_untouched_model_has_no_differences() -> None:
    net = model()
    before = Snapshot.take(net)
    assert before.differences() == []
    before.restore()
    assert before.differences() == []


def test_taking_and_comparing_change_nothing() -> None:
    net = model()
    outer = Snapshot.take(net)
    Snapshot.take(net).differences()
    assert outer.differences() == []


@pytest.mark.parametrize("kind", CHANGES)
def test_a_planted_change_is_named_and_put_back(kind: str) -> None:
    plant, sentences = CHANGES[kind]
    net = model()
    before = Snapshot.take(net)
    values = [t.clone() for t in net.state_dict().values()]
    plant(net)
    assert before.differences() == sentences
    before.restore()
    assert before.differences() == []
    for was, now in zip(values, net.state_dict().values(), strict=True):
        torch.testing.assert_close(now, was, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("kind", HOOKS)
def test_a_hook_of_every_kind_is_named_and_taken_off(kind: str) -> None:
    net = model()
    before = Snapshot.take(net)
    handle = HOOKS[kind](net[1])
    assert f"module 1: {kind} were 0, are 1." in before.differences()
    before.restore()
    assert before.differences() == []
    if handle is not None:
        handle.remove()  # the handle of a hook that is gone stays harmless
    assert before.differences() == []


def test_a_hook_in_the_place_of_another_is_named() -> None:
    net = model()
    handle = net[1].register_forward_hook(nothing)
    before = Snapshot.take(net)
    handle.remove()
    net[1].register_forward_hook(lambda *_: None)
    assert before.differences() == ["module 1: forward hooks were replaced."]
    before.restore()
    assert before.differences() == []
    handle.remove()
    assert before.differences() == ["module 1: forward hooks were 1, are 0."]
