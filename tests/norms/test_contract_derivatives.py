"""The shared contract: first, second and third derivatives, torch.func, subsets of gradients."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import gradcheck, gradgradcheck
from torch.func import functional_call, grad, hessian, jacrev, jvp, vmap

from tests.norms.cases import EXACT_CASES, STATELESS_CASES, TOKEN_CASES, Case

every_case = pytest.mark.parametrize("case", EXACT_CASES, ids=lambda c: c.name)
stateless_case = pytest.mark.parametrize("case", STATELESS_CASES, ids=lambda c: c.name)
token_case = pytest.mark.parametrize("case", TOKEN_CASES, ids=lambda c: c.name)


def as_function(case: Case, layer: nn.Module) -> tuple[Callable[..., Tensor], tuple[Tensor, ...]]:
    """The layer as a function of x, its other inputs and all its parameters, and those leaves."""
    names = [name for name, _ in layer.named_parameters()]
    _, *others = case.arguments(torch.empty(case.shape, dtype=torch.float64))
    inputs = [t for t in others if t.is_floating_point()]

    def f(x: Tensor, *rest: Tensor) -> Tensor:
        given = iter(rest[: len(inputs)])
        args = (x, *(next(given) if t.is_floating_point() else t for t in others))
        values = dict(zip(names, rest[len(inputs) :], strict=True))
        return functional_call(layer, values, args)  # type: ignore[no-any-return]

    leaves = [t.detach().clone().requires_grad_() for t in (*inputs, *layer.parameters())]
    return f, (case.input().requires_grad_(), *leaves)


@every_case
def test_first_and_second_derivatives(case: Case) -> None:
    f, leaves = as_function(case, case.layer())
    assert gradcheck(f, leaves)
    assert gradgradcheck(f, leaves, atol=1e-4)


@stateless_case
def test_third_derivative_equals_the_functional_one(case: Case) -> None:
    # pytorch#175754, #176234, #186256: torch's LayerNorm and BatchNorm are wrong from order 3 on.
    f, (x, *parameters) = as_function(case, case.layer())
    v = torch.randn_like(x)
    by_graph = (f(x, *parameters).pow(2) * v).sum()
    for _ in range(3):
        (dx,) = torch.autograd.grad(by_graph, x, create_graph=True)
        by_graph = (dx * v).sum()

    def along(t: Tensor) -> Tensor:
        return (f(x.detach() + t * v, *parameters).pow(2) * v).sum()

    zero = torch.zeros((), dtype=torch.float64)
    torch.testing.assert_close(by_graph, grad(grad(grad(along)))(zero), rtol=1e-9, atol=1e-9)
    h = 1e-3
    steps = [grad(along)(zero + k * h) for k in (-1, 0, 1)]
    finite = (steps[0] - 2 * steps[1] + steps[2]) / h**2
    torch.testing.assert_close(by_graph, finite, rtol=0.05, atol=0.05)


def test_third_derivative_of_layer_norm_by_number() -> None:
    # pytorch#175754: compared with the formula written in plain operations.
    x = torch.tensor([0.3, -1.2, 0.7, 2.0], dtype=torch.float64, requires_grad=True)
    v = torch.tensor([1.0, -0.5, 0.25, 2.0], dtype=torch.float64)

    def composite(t: Tensor) -> Tensor:
        c = t - t.mean()
        return c / (c.square().mean() + 0.1).sqrt()

    from normkit.functional import layer_norm

    results = []
    for f in (composite, lambda t: layer_norm(t, 4, eps=0.1)):
        s = (f(x) * v).sum()
        for _ in range(3):
            (dx,) = torch.autograd.grad(s, x, create_graph=True)
            s = (dx * v).sum()
        results.append(s.item())
    assert results[1] == pytest.approx(results[0], rel=1e-12)
    assert abs(results[0]) > 0.1


@stateless_case
def test_jvp_against_finite_differences(case: Case) -> None:
    f, (x, *parameters) = as_function(case, case.layer())
    leaves = (x.detach(), *(p.detach() for p in parameters))
    tangents = tuple(torch.randn_like(leaf) for leaf in leaves)
    _, got = jvp(f, leaves, tangents)
    h = 1e-6
    moved = [f(*(a + s * h * b for a, b in zip(leaves, tangents, strict=True))) for s in (1, -1)]
    torch.testing.assert_close(got, (moved[0] - moved[1]) / (2 * h), rtol=1e-5, atol=1e-6)
    assert got.abs().max() > 0.01  # a zero tangent is the silent failure of a custom op


@stateless_case
def test_forward_mode_outside_torch_func(case: Case) -> None:
    f, (x, *parameters) = as_function(case, case.layer())
    tangent = torch.randn_like(x)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x.detach(), tangent)
        got = torch.autograd.forward_ad.unpack_dual(f(dual, *parameters)).tangent
    _, want = jvp(lambda t: f(t, *parameters), (x.detach(),), (tangent,))
    torch.testing.assert_close(got, want)


@stateless_case
def test_hessian_equals_double_backward(case: Case) -> None:
    f, (x, *parameters) = as_function(case, case.layer())

    def loss(t: Tensor) -> Tensor:
        return f(t, *parameters).pow(3).sum()

    want = torch.autograd.functional.hessian(loss, x.detach())
    torch.testing.assert_close(hessian(loss)(x.detach()), want, rtol=1e-8, atol=1e-8)


@token_case
def test_vmap_and_gradients_per_sample(case: Case) -> None:
    f, (x, *parameters) = as_function(case, case.layer())
    x = x.detach()
    got = vmap(lambda t: f(t, *parameters))(x)  # by the formula, beside a kernel
    torch.testing.assert_close(got, f(x, *parameters), rtol=1e-12, atol=1e-12)
    # also over an axis of the parameters, with one input for all
    if parameters:
        stacked = [torch.stack([p, 2 * p]) for p in parameters]
        got = vmap(lambda *p: f(x, *p))(*stacked)
        torch.testing.assert_close(got[1], f(x, *(2 * p for p in parameters)))

    def loss(ps: list[Tensor], t: Tensor) -> Tensor:
        return f(t, *ps).pow(3).sum()

    together = vmap(grad(loss), in_dims=(None, 0))(parameters, x)
    for i in range(len(x)):
        alone = torch.autograd.grad(loss(parameters, x[i]), parameters) if parameters else ()
        for a, b in zip(together, alone, strict=True):
            torch.testing.assert_close(a[i], b)


@stateless_case
def test_jacrev_equals_backward(case: Case) -> None:
    f, (x, *parameters) = as_function(case, case.layer())
    want = torch.autograd.functional.jacobian(lambda t: f(t, *parameters), x.detach())
    got = jacrev(lambda t: f(t, *parameters))(x.detach())
    torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-9)


@every_case
def test_every_subset_of_needed_gradients(case: Case) -> None:
    # harvard-edge/cs249r_book#1504: frozen gain with trained bias, or dx alone.
    layer = case.layer()
    f, leaves = as_function(case, layer)
    dy = case.input()
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    want = torch.autograd.grad(f(*leaves), leaves, dy)
    for needs in itertools.product((True, False), repeat=len(leaves)):
        layer.load_state_dict(before)
        some = [leaf.detach().requires_grad_(n) for leaf, n in zip(leaves, needs, strict=True)]
        y = f(*some)
        assert y.requires_grad == any(needs)
        if any(needs):
            y.backward(dy)
        for leaf, need, gradient in zip(some, needs, want, strict=True):
            assert (leaf.grad is not None) == need
            assert not need or torch.equal(leaf.grad, gradient)


@every_case
def test_the_output_may_be_written_in_place(case: Case) -> None:
    """What ReLU(inplace=True) after a norm does."""
    f, leaves = as_function(case, case.layer())
    want = torch.autograd.grad(f(*leaves).relu().pow(2).sum(), leaves)
    got = torch.autograd.grad(f(leaves[0] * 1, *leaves[1:]).relu_().pow(2).sum(), leaves)
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b)
