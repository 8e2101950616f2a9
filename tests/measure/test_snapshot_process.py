"""Snapshots of what lies around the values: storages, trees, random generators, global flags."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from normkit.measure import Snapshot

MOVES: dict[str, tuple[Callable[[], object], str]] = {
    "torch": (lambda: torch.rand(1), "torch's random state on the CPU changed."),
    "torch seed": (lambda: torch.manual_seed(5), "torch's random state on the CPU changed."),
    "python": (random.random, "Python's random state changed."),
    "numpy": (lambda: np.random.rand(1), "numpy's random state changed."),
    "numpy's spare": (np.random.randn, "numpy's random state changed."),
    "grad mode": (
        lambda: torch.set_grad_enabled(False),
        "grad mode was True, is False.",
    ),
    "default dtype": (
        lambda: torch.set_default_dtype(torch.float64),
        "the default dtype was torch.float32, is torch.float64.",
    ),
    "deterministic": (
        lambda: torch.set_deterministic_debug_mode("warn"),
        "torch's deterministic debug mode was 0, is 1.",
    ),
    "fast path": (
        lambda: torch.backends.mha.set_fastpath_enabled(False),
        "the fast path of torch's encoder layers was True, is False.",
    ),
}


@pytest.mark.parametrize("dial", MOVES)
def test_a_moved_dial_is_named_and_turned_back(dial: str) -> None:
    move, sentence = MOVES[dial]
    before = Snapshot.take(nn.ReLU())
    try:
        move()
        assert before.differences() == [sentence]
    finally:
        before.restore()
    assert before.differences() == []


def test_cuda_generators_are_watched_once_cuda_has_started(monkeypatch: pytest.MonkeyPatch) -> None:
    states = [torch.zeros(16, dtype=torch.uint8), torch.ones(16, dtype=torch.uint8)]

    def put_back(saved: list[torch.Tensor]) -> None:
        states[:] = [state.clone() for state in saved]

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_rng_state_all", lambda: [s.clone() for s in states])
    monkeypatch.setattr(torch.cuda, "set_rng_state_all", put_back)
    before = Snapshot.take(nn.ReLU())
    assert before.differences() == []
    states[1][3] = 9
    assert before.differences() == ["torch's random state on CUDA changed."]
    before.restore()
    assert states[1][3] == 1


def test_a_generator_that_was_not_there_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as context:
        context.delitem(sys.modules, "numpy")
        before = Snapshot.take(nn.ReLU())
        assert "numpy" not in sys.modules
    np.random.rand(1)
    assert before.differences() == []


def test_dropout_draws_the_same_mask_after_restore() -> None:
    net, x = nn.Dropout(0.5), torch.ones(100)
    before = Snapshot.take(net)
    first = net(x)
    before.restore()
    assert torch.equal(net(x), first)


def test_restore_writes_into_the_storages_that_held_the_values() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    flat = torch.arange(12.0)
    net[0].weight.data, net[1].weight.data = flat[:4].view(2, 2), flat[4:8].view(2, 2)
    objects = list(net.parameters())
    before = Snapshot.take(net)
    net.double()
    net[0].weight.data = torch.zeros(2, 2, dtype=torch.float64)
    flat.zero_()
    before.restore()
    assert before.differences() == []
    assert all(a is b for a, b in zip(objects, net.parameters(), strict=True))
    assert flat.tolist() == [*range(8), 0, 0, 0, 0]  # what no tensor of the model held is not ours
    flat[0] = -1
    assert net[0].weight[0, 0] == -1


def test_views_of_one_storage_are_a_group_though_they_do_not_overlap() -> None:
    net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    flat = torch.zeros(8)
    net[0].weight.data, net[1].weight.data = flat[:4].view(2, 2), flat[4:].view(2, 2)
    before = Snapshot.take(net)
    net[1].weight.data = net[1].weight.data.clone()
    assert before.differences() == ["0.weight, 1.weight shared one storage, and no longer all do."]
    before.restore()
    assert before.differences() == []


def test_a_module_under_two_names_is_reported_once_and_its_second_name_watched() -> None:
    shared = nn.LayerNorm(2)
    net = nn.ModuleDict({"first": shared, "second": shared})
    before = Snapshot.take(net)
    shared.eval()
    assert before.differences() == ["module first: training was True, is False."]
    before.restore()
    net["second"] = nn.LayerNorm(2)
    assert before.differences()[0] == (
        "module second was replaced: it was LayerNorm, is another LayerNorm."
    )
    before.restore()
    assert net["second"] is shared


def test_what_lies_below_a_replaced_module_is_left_to_one_sentence() -> None:
    net = nn.Sequential(nn.Linear(2, 2))
    before = Snapshot.take(net)
    net[0] = nn.LayerNorm(2)
    assert before.differences() == ["module 0 was replaced: it was Linear, is another LayerNorm."]


def test_tensor_attributes_and_containers_are_compared_by_content() -> None:
    net = nn.ReLU()
    net.scale, net.sizes, net.table = torch.ones(2), [1, 2], {"a": (1.0, float("nan"))}
    before = Snapshot.take(net)
    assert before.differences() == []
    net.scale[0] = 2
    net.sizes.append(3)
    net.table["a"] = (1.0, 2.0)
    assert before.differences() == [
        "the model: attribute sizes was [1, 2], is [1, 2, 3].",
        "the model: attribute table was {'a': (1.0, nan)}, is {'a': (1.0, 2.0)}.",
        "tensor attribute scale: 1 of 2 elements changed.",
    ]
    before.restore()
    assert (net.scale.tolist(), net.sizes) == ([1, 1], [1, 2])
    assert before.differences() == []


def test_the_order_of_modules_comes_back() -> None:
    net = nn.Sequential(nn.ReLU(), nn.GELU())
    before = Snapshot.take(net)
    net.insert(0, nn.Tanh())
    assert "module 2 was added." in before.differences()
    before.restore()
    assert [type(m) for m in net] == [nn.ReLU, nn.GELU]


def test_a_meta_model_has_no_bits_but_all_else() -> None:
    with torch.device("meta"):
        net = nn.BatchNorm1d(3)
    before = Snapshot.take(net)
    assert before.differences() == []
    net.weight.requires_grad_(False)
    assert before.differences() == ["parameter weight: requires_grad was True, is False."]
    net.to_empty(device="cpu")
    assert "parameter weight: device was meta, is cpu." in before.differences()


def test_a_training_step_is_undone_bit_for_bit() -> None:
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.1), nn.Linear(8, 1))
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
    x = torch.randn(16, 4)
    before = Snapshot.take(net)

    def step() -> list[torch.Tensor]:
        optimiser.zero_grad()
        net(x).square().mean().backward()
        optimiser.step()
        return [t.clone() for t in net.state_dict().values()]

    first = step()
    assert len(before.differences()) >= 10
    before.restore()
    assert before.differences() == []
    assert all(torch.equal(a, b) for a, b in zip(first, step(), strict=True))
