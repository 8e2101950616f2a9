"""Residual sum and norm in one: the custom ops, torch.compile, export, checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from tests.norms import test_contract_graphs as graphs
from tests.norms.added import ADDED, CASES, SEED, Added, P, draw, over
from tests.norms.cases import Case


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    """No graph of another test."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize(
    "test",
    [
        graphs.test_compiled_gradients,
        graphs.test_functional_transforms_inside_a_compiled_region,
        graphs.test_a_new_batch_size_needs_no_new_graph_twice,
        graphs.test_exports_with_a_dynamic_batch,
    ],
)
def test_the_contract_of_graphs(test: Callable[[Case], None]) -> None:
    test(CASES[2])


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_compiles_and_exports_as_one_op(case: Case) -> None:
    graphs.test_compiles_whole_and_gives_the_same(case)
    graphs.test_exports_as_one_op_that_survives_saving(case)


def options(op: Added) -> tuple[object, ...]:
    """Arguments of the custom op after its tensors."""
    seed = (torch.tensor(SEED),) if op.drops else ()
    rounding = () if op.center else ("once",)
    return (*seed, 1, 1e-5, "inside", False, 1.7, *rounding, *((P,) if op.drops else ()))


@over(ADDED)
def test_opcheck(op: Added) -> None:
    x, residual, weight, bias = (t.requires_grad_() for t in draw(2, 5, dtype=torch.float32))
    half = x.detach().bfloat16().requires_grad_()
    custom_op = getattr(torch.ops.normkit, op.name).default
    torch.library.opcheck(custom_op, (half, residual, weight, bias, *options(op)))
    torch.library.opcheck(custom_op, (x, residual.detach(), None, None, *options(op)))


@over(ADDED[1:3])
def test_one_output_alone_in_a_compiled_graph(op: Added) -> None:
    leaves = [t.requires_grad_() for t in draw(3, 4)]
    for which in (0, 1):

        def loss(*leaves: Tensor, which: int = which) -> Tensor:
            return op(*leaves)[which].pow(3).sum()

        compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
        got = torch.autograd.grad(compiled(*leaves), leaves, allow_unused=True)
        want = torch.autograd.grad(loss(*leaves), leaves, allow_unused=True)
        for a, b in zip(got, want, strict=True):
            torch.testing.assert_close(a, torch.zeros_like(a) if b is None else b)


@over(ADDED[2:])
def test_a_seed_drawn_inside_a_compiled_graph(op: Added) -> None:
    x, residual = torch.ones(2, 8, 8)
    f = torch.compile(lambda x, r: op(x, r, seed=None).h, backend="aot_eager", fullgraph=True)
    torch.manual_seed(3)
    first, second = f(x, residual), f(x, residual)
    assert not torch.equal(first, second)
    torch.manual_seed(3)
    assert torch.equal(f(x, residual), first)
    torch.manual_seed(3)
    assert torch.equal(op(x, residual, seed=None).h, first)


@over(ADDED[2:])
@pytest.mark.parametrize("reentrant", [False, True])
def test_a_recomputation_draws_the_same_mask(op: Added, reentrant: bool) -> None:
    x, residual = (t.requires_grad_() for t in draw(8, 8)[:2])

    def loss(x: Tensor, residual: Tensor) -> Tensor:
        y, h = op(x, residual, seed=None)
        return (y.sin() * h.cos()).sum()

    torch.manual_seed(3)
    want = torch.autograd.grad(loss(x, residual), (x, residual))
    torch.manual_seed(3)
    checkpoint(loss, x, residual, use_reentrant=reentrant).backward()
    assert torch.equal(x.grad, want[0])
    assert torch.equal(residual.grad, want[1])


def test_in_place_in_a_compiled_graph() -> None:
    for op in ADDED[1:3]:
        leaves = draw(3, 4)
        residual, want = leaves[1], op(*leaves)
        f = torch.compile(op, backend="aot_eager", fullgraph=True)
        y, h = f(*leaves, inplace=True)
        assert torch.equal(y, want.y)
        assert torch.equal(residual, want.h)
        assert h.data_ptr() == residual.data_ptr()
