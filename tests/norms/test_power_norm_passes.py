"""PowerNorm's passes: each batch moves each statistic once, whatever autograd does with it."""

from __future__ import annotations

import copy
import gc
import pickle
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import normkit
from normkit.errors import StateError

both_kinds = pytest.mark.parametrize("reentrant", [False, True], ids=["hooks", "reentrant"])
both_phases = pytest.mark.parametrize("warmup", [0, 2])


@pytest.fixture
def compiler() -> Iterator[None]:
    """No graph of another test."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def block(warmup: int = 0) -> nn.Sequential:
    """Two norms with something between, the same on every call."""
    torch.manual_seed(7)
    options: dict[str, Any] = {"warmup": warmup, "dtype": torch.float64}
    return nn.Sequential(
        nn.Linear(4, 4, dtype=torch.float64),
        normkit.PowerNorm(4, groups=2, momentum=0.4, backward_momentum=0.3, **options),
        nn.Tanh(),
        normkit.PowerNorm(4, groups=None, momentum=0.4, backward_momentum=0.3, **options),
    )


def inputs(count: int) -> list[Tensor]:
    """Batches that differ."""
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(3, 5, 4, dtype=torch.float64, generator=generator) for _ in range(count)]


def state(model: nn.Module, *leaves: Tensor) -> list[Tensor | None]:
    """Gradients of the inputs, gradients of the parameters, every buffer."""
    grads = [leaf.grad for leaf in leaves] + [p.grad for p in model.parameters()]
    return [*grads, *(b.clone() for b in model.buffers())]


def same(a: list[Tensor | None], b: list[Tensor | None]) -> None:
    """Compare to rounding."""
    for first, second in zip(a, b, strict=True):
        torch.testing.assert_close(first, second, rtol=1e-11, atol=1e-12)


def steps(
    model: nn.Module, run: Callable[[Tensor], Tensor], *, waiting: bool = True
) -> list[Tensor | None]:
    """Four batches, two of them forward, forward, backward, backward where they may wait."""
    leaves = [x.clone().requires_grad_() for x in inputs(4)]
    run(leaves[0]).pow(3).sum().backward()
    if waiting:
        second, third = run(leaves[1]).pow(3).sum(), run(leaves[2]).pow(3).sum()
        second.backward()
        third.backward()
    run(leaves[3]).pow(3).sum().backward()
    return state(model, *leaves)


@both_phases
@both_kinds
def test_checkpointing_equals_plain(reentrant: bool, warmup: int) -> None:
    plain, kept = block(warmup), block(warmup)
    got = steps(kept, lambda x: checkpoint(kept, x, use_reentrant=reentrant))
    same(got, steps(plain, plain))
    assert kept[1].num_batches_tracked == 4


@both_kinds
def test_checkpointing_with_a_mask_around_it(reentrant: bool) -> None:
    valid = torch.arange(5) < torch.tensor([[5], [2], [0]])
    plain, kept = block(), block()

    def masked(x: Tensor) -> Tensor:
        with normkit.valid(valid):
            return plain(x)  # type: ignore[no-any-return]

    wrapped = normkit.valid(valid)(kept)
    same(
        steps(kept, lambda x: checkpoint(wrapped, x, use_reentrant=reentrant)),
        steps(plain, masked),
    )


def test_checkpoint_inside_checkpoint() -> None:
    plain, kept = block(), block()

    def inner(x: Tensor) -> Tensor:
        return checkpoint(kept, x, use_reentrant=True)  # type: ignore[no-any-return]

    got = steps(kept, lambda x: checkpoint(inner, x, use_reentrant=True))
    same(got, steps(plain, plain))


def test_a_sum_over_two_checkpointed_batches() -> None:
    plain, kept = block(), block()
    results = []
    for model, run in ((plain, plain), (kept, lambda x: checkpoint(kept, x, use_reentrant=False))):
        leaves = [x.clone().requires_grad_() for x in inputs(2)]
        sum(run(x).pow(3).sum() for x in leaves).backward()
        results.append(state(model, *leaves))
    same(*results)


def test_a_recomputation_of_other_values_is_refused() -> None:
    layer = normkit.PowerNorm(4)
    text = (
        "PowerNorm: a recomputation must repeat one of the last 64 forward passes to the bit; none "
        "had this mean square. Checkpoint with preserve_rng_state=True, and keep fewer passes "
        "waiting."
    )

    def noisy(x: Tensor) -> Tensor:
        return layer(x + torch.randn_like(x))  # type: ignore[no-any-return]

    x = torch.randn(3, 4, requires_grad=True)
    y = checkpoint(noisy, x, use_reentrant=False, preserve_rng_state=False)
    with pytest.raises(StateError, match=f"^{re.escape(text)}$"):
        y.sum().backward()


@both_phases
def test_a_second_backward_gives_the_same_and_moves_nothing(warmup: int) -> None:
    model = block(warmup)
    for x in inputs(2):
        leaf = x.clone().requires_grad_()
        loss = model(leaf).pow(3).sum()
        first = torch.autograd.grad(loss, leaf, retain_graph=True)
        before = [b.clone() for b in model.buffers()]
        assert any(b.abs().sum() > 0 for name, b in model.named_buffers() if "product" in name)
        second = torch.autograd.grad(loss, leaf)
        assert torch.equal(first[0], second[0])
        for a, b in zip(before, model.buffers(), strict=True):
            assert torch.equal(a, b)


def test_backwards_in_any_order_move_each_once() -> None:
    results = []
    for order in ((0, 1, 2), (2, 0, 1)):
        model = block()
        losses = [model(x.clone().requires_grad_()).pow(3).sum() for x in inputs(3)]
        for i in order:
            losses[i].backward(retain_graph=True)
            losses[i].backward()
        results.append(model)
    assert results[0][1].num_batches_tracked == results[1][1].num_batches_tracked == 3
    for a, b in zip(results[0].parameters(), results[1].parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad)  # the passes' own statistics decide


def test_second_derivatives() -> None:
    # In the first passes those of the formula (the shared contract); after them those of the
    # written rule, in which psi and nu are numbers: dx = (g * w - x / psi * nu) / psi.
    layer = normkit.PowerNorm(3, warmup=0, groups=None, dtype=torch.float64)
    layer.running_square.uniform_(1, 2)
    layer.running_product.normal_()
    nu, psi = layer.running_product.clone(), (layer.running_square + 1e-5).sqrt()
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    dy, v = torch.randn(2, 4, 3, dtype=torch.float64)
    dy.requires_grad_()
    (dx,) = torch.autograd.grad(layer(x), x, dy, create_graph=True)
    second = torch.autograd.grad(dx, (x, dy, layer.weight), v)
    torch.testing.assert_close(second[0], -v * nu / psi**2)
    torch.testing.assert_close(second[1], v * layer.weight / psi)
    torch.testing.assert_close(second[2], (v * dy / psi).sum(0))


def test_copies_and_pickles_begin_without_waiting_passes() -> None:
    model = block()
    waiting = model(inputs(1)[0].requires_grad_()).pow(3).sum()
    copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    twin = block()
    twin.load_state_dict(model.state_dict())
    waiting.backward()
    for other in (*copies, twin):
        assert other[1].running_product.abs().sum() == 0  # the backward was not theirs
        assert len({id(m[1].passes) for m in (model, other)}) == 2
    want = steps(twin, twin)
    for other in copies:
        same(steps(other, other), want)
        assert other[1].running_product.abs().sum() > 0


def test_a_layer_that_is_gone_leaves_its_graph_usable() -> None:
    layer, x = normkit.PowerNorm(4), torch.randn(3, 4, requires_grad=True)
    y = layer(x)
    del layer
    gc.collect()
    y.pow(2).sum().backward()
    assert x.grad.isfinite().all()


def test_in_place_operations_around_it() -> None:
    # The public code failed here: its buffers were saved for backward and then written to.
    layer = normkit.PowerNorm(4, warmup=0)
    model = nn.Sequential(layer, nn.ReLU(inplace=True), layer)
    losses = [model(torch.randn(3, 4, requires_grad=True)).sum() for _ in range(2)]
    for loss in losses:
        loss.backward()
    assert layer.num_batches_tracked == 4


@pytest.mark.usefixtures("compiler")
def test_compiled_equals_plain() -> None:
    plain, compiled = block(2), block(2)
    f = torch.compile(compiled, fullgraph=True, backend="aot_eager")
    same(steps(compiled, f), steps(plain, plain))


@pytest.mark.usefixtures("compiler")
def test_checkpointing_inside_a_compiled_function() -> None:
    plain, kept = block(), block()

    def run(x: Tensor) -> Tensor:
        return checkpoint(kept, x, use_reentrant=False)  # type: ignore[no-any-return]

    # Torch lets no graph wait whose inputs, the buffers, the next forward pass writes to.
    f = torch.compile(run, fullgraph=True, backend="aot_eager")
    same(steps(kept, f, waiting=False), steps(plain, plain, waiting=False))


@pytest.mark.usefixtures("compiler")
@both_kinds
def test_checkpointing_a_compiled_block(reentrant: bool) -> None:
    plain, kept = block(1), block(1)
    f = torch.compile(kept, fullgraph=True, backend="aot_eager")
    same(
        steps(kept, lambda x: checkpoint(f, x, use_reentrant=reentrant)),
        steps(plain, plain),
    )


@pytest.mark.usefixtures("compiler")
def test_layers_share_one_graph() -> None:
    count = 0

    def counting(graph: torch.fx.GraphModule, given: list[Tensor]) -> object:
        nonlocal count
        count += 1
        return graph

    def run(layer: nn.Module, x: Tensor) -> Tensor:
        return layer(x)  # type: ignore[no-any-return]

    f = torch.compile(run, fullgraph=True, backend=counting)
    x = torch.randn(3, 4)
    for _ in range(3):
        f(normkit.PowerNorm(4), x)
    assert count == 1
