"""``with normkit.valid(mask):`` in models that know nothing of masks."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import normkit
from normkit.errors import DtypeError, StateError
from normkit.layers.valid import current_valid

FIRST = torch.tensor([[True, True, True, False], [True, True, False, False]])
SECOND = torch.tensor([[True, True, True, True], [True, False, False, False]])
both_kinds = pytest.mark.parametrize("reentrant", [False, True], ids=["hooks", "reentrant"])
LOST = (
    "MaskedBatchNorm: a recomputation needs the mask of its first forward pass; this one, inside "
    "backward, finds none. Call backward inside `with normkit.valid(mask):`, or type "
    "checkpoint(normkit.valid(mask)(block), x)."
)


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """No test leaves a mask behind."""
    yield
    assert current_valid(nn.Identity(), None) is None


@pytest.fixture
def compiler() -> Iterator[None]:
    """No graph of another test."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Stranger(nn.Module):
    """Somebody's model, which passes x alone; ``plain`` is the same with masks handed on."""

    def __init__(self) -> None:
        super().__init__()
        norm = {"track_running_stats": False, "dtype": torch.float64}
        self.inner = nn.Sequential(
            nn.Linear(3, 3, dtype=torch.float64), normkit.MaskedBatchNorm(3, **norm), nn.Tanh()
        )
        self.last = normkit.MaskedBatchNorm(3, **norm)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(x + self.inner(x))  # type: ignore[no-any-return]

    def plain(self, x: Tensor, mask: Tensor | None) -> Tensor:
        linear, norm, tanh = self.inner
        return self.last(x + tanh(norm(linear(x), mask)), mask)  # type: ignore[no-any-return]


@pytest.fixture
def model() -> Stranger:
    return Stranger()


@pytest.fixture
def x() -> Tensor:
    return torch.randn(2, 4, 3, dtype=torch.float64)


LAYERS: list[tuple[Callable[[], nn.Module], tuple[int, ...]]] = [
    (lambda: normkit.MaskedBatchNorm(4), (2, 4, 4)),
    (lambda: normkit.PowerNorm(4), (2, 4, 4)),
    (lambda: normkit.GroupNorm(2, 4), (2, 4, 4)),
    (lambda: normkit.InstanceNorm1d(4), (2, 4, 4)),
]


@pytest.mark.parametrize(("build", "shape"), LAYERS)
def test_every_masked_layer_takes_it(
    build: Callable[[], nn.Module], shape: tuple[int, ...]
) -> None:
    x = torch.randn(shape)
    with normkit.valid(FIRST):
        y = nn.Sequential(build(), nn.Identity())(x)
    assert torch.equal(y, build()(x, valid=FIRST))
    assert not torch.equal(y, build()(x))


def test_a_model_of_strangers(model: Stranger, x: Tensor) -> None:
    with normkit.valid(FIRST):
        y = model(x)
    assert torch.equal(y, model.plain(x, FIRST))
    assert torch.equal(model(x), model.plain(x, None))
    assert not torch.equal(model(x), y)


def test_nested_blocks_and_the_argument(model: Stranger, x: Tensor) -> None:
    layer = model.last
    plain, first, second = (layer(x, mask) for mask in (None, FIRST, SECOND))
    with normkit.valid(FIRST):
        assert torch.equal(layer(x, SECOND), second)  # what is given wins
        with normkit.valid(SECOND):
            assert torch.equal(layer(x), second)
            with normkit.valid(None):
                assert torch.equal(layer(x), plain)
            assert torch.equal(layer(x), second)
        assert torch.equal(layer(x), first)
    assert torch.equal(layer(x), plain)


def test_an_exception_takes_the_mask_away(model: Stranger, x: Tensor) -> None:
    with pytest.raises(KeyError), normkit.valid(FIRST), normkit.valid(SECOND):
        raise KeyError
    assert torch.equal(model(x), model.plain(x, None))


def test_one_object_is_entered_again_and_again(model: Stranger, x: Tensor) -> None:
    block = normkit.valid(FIRST)
    with block, normkit.valid(SECOND), block:
        assert torch.equal(model(x), model.plain(x, FIRST))
    with block:
        assert torch.equal(model(x), model.plain(x, FIRST))


def test_a_generator_that_ends_late_takes_away_its_own(model: Stranger, x: Tensor) -> None:
    def waiting() -> Iterator[None]:
        with normkit.valid(FIRST):
            yield

    generator = waiting()
    next(generator)
    with normkit.valid(SECOND):
        generator.close()
        assert torch.equal(model(x), model.plain(x, SECOND))
    assert torch.equal(model(x), model.plain(x, None))


def test_as_a_decorator(model: Stranger, x: Tensor) -> None:
    @normkit.valid(FIRST)
    def run(t: Tensor, *, factor: float) -> Tensor:
        """Documented."""
        return model(factor * t)  # type: ignore[no-any-return]

    assert torch.equal(run(x, factor=2.0), model.plain(2 * x, FIRST))
    assert torch.equal(normkit.valid(FIRST)(model)(x), model.plain(x, FIRST))
    assert (run.__name__, run.__doc__) == ("run", "Documented.")


def test_another_thread_sees_its_own(model: Stranger, x: Tensor) -> None:
    # As under nn.DataParallel: the replicas run in threads, and nothing reaches them.
    results: dict[str, Tensor] = {}

    def run(name: str, mask: Tensor | None) -> None:
        if mask is None:
            results[name] = model(x)
            return
        with normkit.valid(mask):
            results[name] = model(x)

    with normkit.valid(FIRST):
        threads = [threading.Thread(target=run, args=a) for a in (("no", None), ("own", SECOND))]
        for thread in threads:
            thread.start()
            thread.join()
        here = model(x)
    assert torch.equal(here, model.plain(x, FIRST))
    assert torch.equal(results["no"], model.plain(x, None))
    assert torch.equal(results["own"], model.plain(x, SECOND))


@pytest.mark.parametrize("mask", [FIRST.long(), FIRST.double()], ids=["int", "float"])
def test_zeros_and_ones(mask: Tensor, model: Stranger, x: Tensor) -> None:
    with normkit.valid(mask):
        assert torch.equal(model(x), model.plain(x, FIRST))


REFUSED: list[tuple[Any, str]] = [
    ([[True]], "valid: the mask must be a bool tensor, True where a position is real; it is list."),
    (
        torch.tensor([0, 2]),
        "valid: valid must be bool, or hold only 0 and 1; it is torch.int64. Try "
        "valid=mask.bool(), True where a position is real.",
    ),
]


@pytest.mark.parametrize(("mask", "text"), REFUSED)
def test_anything_else_is_refused(mask: Any, text: str) -> None:
    with pytest.raises(DtypeError, match=f"^{re.escape(text)}$"):
        normkit.valid(mask)


def gradients(model: Stranger, x: Tensor, run: Callable[[Tensor], Tensor]) -> list[Tensor | None]:
    """Of the input and the parameters; backward is called after ``run``."""
    leaf = x.clone().requires_grad_()
    model.zero_grad()
    run(leaf).pow(3).sum().backward()
    return [leaf.grad, *(p.grad for p in model.parameters())]


def same(a: list[Tensor | None], b: list[Tensor | None]) -> None:
    for first, second in zip(a, b, strict=True):
        torch.testing.assert_close(first, second, rtol=1e-11, atol=1e-12)


@both_kinds
def test_checkpointing(reentrant: bool, model: Stranger, x: Tensor) -> None:
    want = gradients(model, x, lambda t: model.plain(t, FIRST))
    wrapped = normkit.valid(FIRST)(model)
    same(gradients(model, x, lambda t: checkpoint(wrapped, t, use_reentrant=reentrant)), want)
    with normkit.valid(FIRST):  # backward inside
        same(gradients(model, x, lambda t: checkpoint(model, t, use_reentrant=reentrant)), want)


def test_checkpointing_with_its_contexts(model: Stranger, x: Tensor) -> None:
    want = gradients(model, x, lambda t: model.plain(t, FIRST))
    contexts = normkit.valid(FIRST).checkpoint_contexts

    def run(t: Tensor) -> Tensor:
        return checkpoint(model, t, use_reentrant=False, context_fn=contexts)  # type: ignore[no-any-return]

    same(gradients(model, x, run), want)


@both_kinds
def test_a_recomputation_without_its_mask_is_refused(
    reentrant: bool, model: Stranger, x: Tensor
) -> None:
    def lost(t: Tensor) -> Tensor:
        with normkit.valid(FIRST):
            return checkpoint(model, t, use_reentrant=reentrant)  # type: ignore[no-any-return]

    with pytest.raises(StateError, match=f"^{re.escape(LOST)}$"):
        gradients(model, x, lost)
    # Said on purpose, no mask is fine; and so is a layer that never saw one.
    without = normkit.valid(None)(model)
    want = gradients(model, x, lambda t: model.plain(t, None))
    same(gradients(model, x, lambda t: checkpoint(without, t, use_reentrant=reentrant)), want)
    fresh = Stranger()
    gradients(fresh, x, lambda t: checkpoint(fresh, t, use_reentrant=reentrant))


def test_backward_in_a_thread_of_the_engine(model: Stranger, x: Tensor) -> None:
    # As backward passes on other devices do, very deep ones leave the thread of the caller.
    def nested(depth: int, t: Tensor) -> Tensor:
        if depth == 0:
            return model(t)  # type: ignore[no-any-return]
        return checkpoint(nested, depth - 1, t, use_reentrant=True)  # type: ignore[no-any-return]

    want = gradients(model, x, lambda t: model.plain(t, FIRST))
    with normkit.valid(FIRST):
        same(gradients(model, x, lambda t: nested(70, t)), want)

    def lost(t: Tensor) -> Tensor:
        with normkit.valid(FIRST):
            return nested(70, t)

    with pytest.raises(StateError):
        gradients(model, x, lost)


def compiled(f: Callable[..., Tensor]) -> tuple[Callable[..., Tensor], list[int]]:
    """``f`` compiled whole, and a list whose length is the number of graphs."""
    graphs: list[int] = []

    def keep(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> object:
        graphs.append(1)
        return graph

    return torch.compile(f, fullgraph=True, backend=keep), graphs


@pytest.mark.usefixtures("compiler")
def test_compiled_with_the_block_outside(model: Stranger, x: Tensor) -> None:
    # No mask is baked into a graph: it comes, changes and goes without being compiled again.
    f, graphs = compiled(model)
    want = {id(mask): model.plain(x, mask) for mask in (None, FIRST, SECOND)}
    counts = []
    for mask in (None, FIRST, SECOND, None, FIRST):
        if mask is None:
            y = f(x)
        else:
            with normkit.valid(mask):
                y = f(x)
        torch.testing.assert_close(y, want[id(mask)])
        counts.append(len(graphs))
    assert counts == [1, 2, 2, 2, 2]
    with normkit.valid(FIRST), normkit.valid(SECOND):
        torch.testing.assert_close(f(x), want[id(SECOND)])
        with normkit.valid(None):
            torch.testing.assert_close(f(x), want[id(None)])
        elsewhere: list[Tensor] = []
        thread = threading.Thread(target=lambda: elsewhere.append(f(x)))
        thread.start()
        thread.join()
    torch.testing.assert_close(elsewhere[0], want[id(None)])
    assert len(graphs) == 3  # one more for "switched off"


@pytest.mark.usefixtures("compiler")
def test_compiled_with_the_block_inside(model: Stranger, x: Tensor) -> None:
    def run(t: Tensor, mask: Tensor | None) -> Tensor:
        with normkit.valid(mask):
            return model(t)  # type: ignore[no-any-return]

    f, graphs = compiled(run)
    for mask in (FIRST, SECOND, None):
        torch.testing.assert_close(f(x, mask), model.plain(x, mask))
    assert len(graphs) == 2


@pytest.mark.usefixtures("compiler")
def test_checkpointing_inside_a_compiled_function(model: Stranger, x: Tensor) -> None:
    def run(t: Tensor) -> Tensor:
        return checkpoint(model, t, use_reentrant=False)  # type: ignore[no-any-return]

    f = torch.compile(run, fullgraph=True, backend="aot_eager")

    def masked(t: Tensor) -> Tensor:
        with normkit.valid(FIRST):
            return f(t)  # the graph keeps the mask: backward may be outside

    same(gradients(model, x, masked), gradients(model, x, lambda t: model.plain(t, FIRST)))


def test_export_wants_the_argument(model: Stranger, x: Tensor) -> None:
    text = (
        "MaskedBatchNorm: an exported or traced model cannot take its mask from normkit.valid; it "
        "would be a constant. Give it to the layer as valid=, from an argument of the model."
    )
    with normkit.valid(FIRST), pytest.raises(StateError, match=f"^{re.escape(text)}$"):
        torch.export.export(model, (x,), strict=False)
    program = torch.export.export(model.last, (x, FIRST))
    torch.testing.assert_close(program.module()(x, SECOND), model.last(x, SECOND))
