"""The shared contract: copies, pickles, meta device, state_dict, half modules, torch's twins."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch

from normkit.spec import NORMS
from tests.norms.cases import CASES, Case, scramble

every_case = pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
TWINS = tuple(c for c in CASES if c.twin is not None)
twin_case = pytest.mark.parametrize("case", TWINS, ids=lambda c: c.name)


def same_state(a: torch.nn.Module, b: torch.nn.Module) -> bool:
    """Whether two layers hold the same bits under the same names."""
    first, second = a.state_dict(), b.state_dict()
    return first.keys() == second.keys() and all(torch.equal(first[k], second[k]) for k in first)


@every_case
def test_deepcopy_pickle_and_torch_save(case: Case) -> None:
    layer = case.layer().eval()
    x = case.input()
    file = io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    copies = [
        copy.deepcopy(layer),
        pickle.loads(pickle.dumps(layer)),
        torch.load(file, weights_only=False),
    ]
    for other in copies:
        assert same_state(other, layer)
        assert repr(other) == repr(layer)
        assert torch.equal(case.function(other)(x), case.function(layer)(x))


@every_case
def test_meta_device_then_reset(case: Case) -> None:
    # TransformerEngine#2528, llm-foundry#1745: to_empty leaves garbage where reset forgets a name.
    fresh = case.build(dtype=torch.float32)
    with torch.device("meta"):
        layer = case.build(dtype=torch.float32)
    assert all(p.is_meta for p in layer.parameters())
    layer.to_empty(device="cpu")
    with torch.no_grad():
        for tensor in (*layer.parameters(), *layer.buffers()):
            tensor.fill_(7)
    if case.op:
        layer.reset_parameters()
    assert same_state(layer, fresh)


@every_case
def test_meta_device_runs(case: Case) -> None:
    args = [t.to("meta") for t in case.arguments(case.input(torch.float32))]
    with torch.device("meta"):
        layer = case.build(dtype=torch.float32).train(case.training)
        y = layer(*args)
    assert y.is_meta
    assert y.shape == case.shape


@every_case
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_statistics_never_fall_below_float32(case: Case, dtype: torch.dtype) -> None:
    # pytorch#75478, NVIDIA/apex#121: a variance above 65504 becomes inf in a half module.
    built_half = case.build(dtype=dtype)
    cast = case.build(dtype=torch.float32)
    scramble(cast)
    before = {name: value.clone() for name, value in cast.named_buffers()}
    cast.to(dtype)
    for layer in (built_half, cast):
        for buffer in layer.buffers():
            assert buffer.dtype in (torch.float32, torch.int64)
        for parameter in layer.parameters():
            assert parameter.dtype == dtype
    for name, value in cast.named_buffers():
        assert torch.equal(value, before[name])
    assert all(b.dtype == torch.float64 for b in cast.double().buffers() if b.is_floating_point())


@twin_case
def test_state_dict_goes_both_ways_with_torch(case: Case) -> None:
    assert case.twin is not None
    ours, theirs = case.layer(torch.float32), case.twin()
    if case.op is None:
        return  # Identity takes no dtype and has no state
    scramble(theirs)
    ours.load_state_dict(theirs.state_dict())
    assert same_state(ours, theirs)
    scramble(ours)
    theirs.load_state_dict(ours.state_dict())
    assert same_state(ours, theirs)


@twin_case
def test_equals_torch_where_the_meaning_is_the_same(case: Case) -> None:
    assert case.twin is not None
    ours = case.layer(torch.float64)
    theirs = case.twin(dtype=torch.float64).train(case.training)
    theirs.load_state_dict(ours.state_dict())
    dy, results = case.input(), []
    x = case.input()
    for layer in (ours, theirs):
        leaf = x.clone().requires_grad_()
        y = layer(leaf)
        y.backward(dy)
        grads = [p.grad for p in layer.parameters()]
        results.append([y, leaf.grad, *grads, *layer.state_dict().values()])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-11)


@twin_case
def test_is_a_drop_in(case: Case) -> None:
    assert case.twin is not None
    if case.op is None:
        return  # NoNorm is no subclass of Identity
    ours, theirs = case.build(), case.twin()
    assert isinstance(ours, type(theirs))
    if getattr(ours, "eps", 0) is not None:
        assert repr(ours) == repr(theirs)
    assert [n for n, _ in ours.named_parameters()] == [n for n, _ in theirs.named_parameters()]
    assert ours.bias is None or ours.bias.shape == ours.weight.shape


@pytest.mark.parametrize("case", [c for c in CASES if c.image], ids=lambda c: c.name)
def test_memory_format_is_kept_and_changes_no_bit(case: Case) -> None:
    layer = case.layer()
    f = case.function(layer)
    x, dy, results = case.input(), case.input(), []
    for memory_format in (torch.contiguous_format, torch.channels_last):
        layer.zero_grad()
        leaf = x.detach().contiguous(memory_format=memory_format).requires_grad_()
        y = f(leaf)
        assert y.is_contiguous(memory_format=memory_format)
        y.backward(dy)
        results.append([y, leaf.grad, *(p.grad for p in layer.parameters())])
    case.check_layouts(*results)


def test_every_layer_of_the_registry_stands_in_the_contract() -> None:
    here = {type(m).__name__ for case in CASES for m in case.build().modules()}
    assert {name for entry in NORMS.values() for name in entry.layers} <= here
