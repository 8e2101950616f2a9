"""Residual sum and norm in one: gradients of two outputs, higher orders, torch.func, refusals."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import grad, jvp, vmap

from normkit.errors import DtypeError, OptionError, ShapeError, StateError
from normkit.functional import add_layer_norm, add_rms_norm, dropout_add_layer_norm
from tests.norms import test_contract_derivatives as derivatives
from tests.norms import test_contract_forms as forms
from tests.norms.added import ADDED, CASES, EPS, EVERY, NAMES, Added, draw, every_op, over
from tests.norms.cases import Case
from tests.norms.regimes import DTYPES

every_case = pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)


@every_op
@pytest.mark.parametrize("used", ["both", "y", "h"])
def test_the_gradient_of_the_sum_goes_around_the_norm(op: Added, used: str) -> None:
    # quack#53: dh was added to dy and went through the norm's Jacobian. One output alone, or
    # the same gradient for both, does not show it.
    leaves = [t.requires_grad_() for t in draw(6, 5)]
    alpha, (dy, dh) = 1.7, torch.randn(2, 6, 5, dtype=torch.float64)
    outputs = op(*leaves, alpha=alpha)
    pairs = {"y": (outputs.y, dy), "h": (outputs.h, dh)}
    of, given = zip(*(pairs if used == "both" else {used: pairs[used]}).values(), strict=True)
    got = torch.autograd.grad(of, leaves, given, allow_unused=True)
    h, weight, bias = (t.detach().requires_grad_() for t in (outputs.h, *leaves[2:]))
    y = op.norm(h, 5, weight, eps=EPS, bias=bias)
    through = torch.autograd.grad(y, (h, weight, bias), dy)
    total = (through[0] if used != "h" else 0) + (dh if used != "y" else 0)
    torch.testing.assert_close(got[0], total * op.factor((6, 5)), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(got[1], total * alpha, rtol=1e-12, atol=1e-12)
    for mine, true in zip(got[2:], through[1:], strict=True):
        if used == "h":
            assert mine is None
        else:
            torch.testing.assert_close(mine, true, rtol=1e-12, atol=1e-12)


@every_op
def test_the_sum_written_out(op: Added) -> None:
    # Twice through the stack, so that both outputs reach the loss on several ways.
    x, residual, weight, bias = leaves = [t.requires_grad_() for t in draw(6, 5)]
    factor = op.factor((6, 5))

    def composite(x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = factor * x + 0.5 * h
        return op.norm(h, 5, weight, eps=EPS, bias=bias), h

    def ours(x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        return op(x, h, weight, bias, alpha=0.5)

    results = []
    for layer in (composite, ours):
        y, h = layer(x, residual)
        y, h = layer(y.tanh(), h)
        results.append(torch.autograd.grad((y * h.sin()).sum(), leaves))
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-11)


@every_op
def test_second_derivatives_see_both_outputs(op: Added) -> None:
    # h is kept as it is returned: a copy would cut the second derivative off, silently.
    leaves = [t.requires_grad_() for t in draw(2, 1, 3)]
    assert torch.autograd.gradcheck(lambda *t: tuple(op(*t, alpha=1.7)), leaves)
    assert torch.autograd.gradgradcheck(lambda *t: tuple(op(*t, alpha=1.7)), leaves, atol=1e-4)


@every_case
def test_the_contract_of_derivatives(case: Case) -> None:
    derivatives.test_third_derivative_equals_the_functional_one(case)
    derivatives.test_jvp_against_finite_differences(case)
    derivatives.test_forward_mode_outside_torch_func(case)
    derivatives.test_hessian_equals_double_backward(case)
    derivatives.test_every_subset_of_needed_gradients(case)


@every_case
def test_the_contract_of_forms(case: Case) -> None:
    forms.test_strides_change_no_bit(case)
    forms.test_expanded_input_and_gradient(case)
    forms.test_incoming_gradient_and_input_are_not_written(case)
    forms.test_an_empty_batch_changes_nothing(case)
    forms.test_gradients_off_gives_the_same_bits(case)


@pytest.mark.parametrize("residual_dtype", DTYPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_gradients_keep_their_dtypes(dtype: torch.dtype, residual_dtype: torch.dtype) -> None:
    x, residual = torch.randn(3, 8).to(dtype), torch.randn(3, 8).to(residual_dtype)
    weight = torch.ones(8, requires_grad=True)
    for op in (*ADDED, *(Added(name, "auto") for name in NAMES)):
        leaves = [x.detach().requires_grad_(), residual.detach().requires_grad_(), weight]
        y, h = op(*leaves)
        assert (y.dtype, h.dtype) == (dtype, torch.promote_types(dtype, residual_dtype))
        gradients = torch.autograd.grad((y.sum() + (h * 3).sum()), leaves, create_graph=True)
        assert [g.dtype for g in gradients] == [dtype, residual_dtype, torch.float32]
        assert [g.shape for g in gradients] == [leaf.shape for leaf in leaves]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_autocast_changes_nothing(dtype: torch.dtype) -> None:
    x, residual, weight, bias = draw(600, 300, dtype=torch.float32)
    for op in EVERY:
        want = op(x.to(dtype), residual, weight, bias)
        with torch.autocast("cpu", torch.bfloat16):
            got = op(x.to(dtype), residual, weight, bias)
        assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))


@every_op
def test_gradients_of_the_leaves_share_no_memory(op: Added) -> None:
    x, residual = (t.requires_grad_() for t in draw(3, 4)[:2])
    h = op(x, residual).h
    dh = torch.ones_like(h)
    torch.autograd.backward((h,), (dh,))
    for a, b in ((x.grad, residual.grad), (x.grad, dh), (residual.grad, dh)):
        assert a is not None
        assert b is not None
        assert a.data_ptr() != b.data_ptr()


@over(ADDED)
def test_vmap_and_gradients_per_sample(op: Added) -> None:
    x, residual, weight, bias = draw(3, 2, 4)

    def loss(x: Tensor, residual: Tensor, weight: Tensor) -> Tensor:
        y, h = op(x, residual, weight, bias, alpha=0.5)
        return (y.pow(3) + h.sin()).sum()

    together = vmap(grad(loss, argnums=(0, 1, 2)), in_dims=(0, 0, None))(x, residual, weight)
    for i in range(3):
        leaves = [t.detach().clone().requires_grad_() for t in (x[i], residual[i], weight)]
        alone = torch.autograd.grad(loss(*leaves), leaves)
        for a, b in zip(together, alone, strict=True):
            torch.testing.assert_close(a[i], b)


@over(ADDED[2:])
def test_the_seed_decides_inside_vmap(op: Added) -> None:
    x, residual = torch.ones(4, 2, 32), torch.zeros(4, 2, 32)
    same = vmap(lambda x, r: op(x, r).h)(x, residual)
    assert all(torch.equal(h, same[0]) for h in same)
    seeds = torch.arange(4)
    own = vmap(lambda x, r, s: op(x, r, seed=s).h)(x, residual, seeds)
    for i in range(4):
        assert torch.equal(own[i], op(x[i], residual[i], seed=i).h)

    def drawn(x: Tensor, residual: Tensor) -> Tensor:
        return op(x, residual, seed=None).h

    with pytest.raises(RuntimeError, match="randomness"):
        vmap(drawn)(x, residual)
    alike = vmap(drawn, randomness="same")(x, residual)
    assert all(torch.equal(alike[0], h) for h in alike[1:])
    differ = vmap(drawn, randomness="different")(x, residual)
    assert not any(torch.equal(differ[0], h) for h in differ[1:])


@over(ADDED[2:])
def test_a_tangent_is_dropped_where_x_was(op: Added) -> None:
    x, residual, tangent, _ = draw(3, 40)
    tangent = tangent.expand(3, 40)
    _, got = jvp(lambda t: op(t, residual).h, (x,), (tangent,))
    torch.testing.assert_close(got, tangent * op.factor((3, 40)))


X = torch.ones(2, 8)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: add_layer_norm(X, torch.ones(8), 8),
            ShapeError,
            "add_layer_norm: residual must have the shape of x, (2, 8); it is (8,).",
        ),
        (
            lambda: add_rms_norm(X, X > 0, 8),
            DtypeError,
            "add_rms_norm: residual must be a floating-point tensor; it is torch.bool.",
        ),
        (
            lambda: add_rms_norm(X, None, 8),  # type: ignore[arg-type]
            DtypeError,
            "add_rms_norm: residual must be a floating-point tensor; it is NoneType.",
        ),
        (
            lambda: add_layer_norm(X, X, 8, alpha=float("nan")),
            OptionError,
            "add_layer_norm: alpha must be a finite number; it is nan.",
        ),
        (
            lambda: add_layer_norm(X, X, 8, alpha=torch.ones(())),  # type: ignore[arg-type]
            OptionError,
            "add_layer_norm: alpha must be a finite number; it is a Tensor. Try alpha.item().",
        ),
        (
            lambda: add_layer_norm(X, X, 4),
            ShapeError,
            "add_layer_norm: the last axis of x must be 4; x is (2, 8). Try normalized_shape=8.",
        ),
        (
            lambda: add_rms_norm(X, X, 8, rounding="twice"),  # type: ignore[arg-type]
            OptionError,
            "add_rms_norm: rounding must be 'once' or 'before_gain'; rounding is 'twice'.",
        ),
        (
            lambda: dropout_add_layer_norm(X, X, 8, p=1.5),
            OptionError,
            "dropout_add_layer_norm: p must lie in [0, 1]; it is 1.5.",
        ),
        (
            lambda: dropout_add_layer_norm(X, X, 8, seed=2**63),
            OptionError,
            "dropout_add_layer_norm: seed must be an integer of 64 bits with its sign, or a "
            "torch.int64 tensor of shape (); it is 9223372036854775808.",
        ),
        (
            lambda: dropout_add_layer_norm(X, X, 8, seed=torch.ones(1)),
            OptionError,
            "dropout_add_layer_norm: seed must be an integer of 64 bits with its sign, or a "
            "torch.int64 tensor of shape (); it is torch.float32 of shape (1,).",
        ),
        (
            lambda: dropout_add_layer_norm(X, X, 8, seed=0.5),  # type: ignore[arg-type]
            OptionError,
            "dropout_add_layer_norm: seed must be an integer of 64 bits with its sign, or a "
            "torch.int64 tensor of shape (); it is 0.5.",
        ),
        (
            lambda: add_layer_norm(X, X.clone(), 8, X[0].clone().requires_grad_(), inplace=True),
            StateError,
            "add_layer_norm: inplace=True needs gradients off; a backward pass would need the "
            "residual that it overwrites. Try inplace=False, or call it inside torch.no_grad().",
        ),
        (
            lambda: add_rms_norm(X, X.clone().requires_grad_(), 8, inplace=True),
            StateError,
            "add_rms_norm: inplace=True needs gradients off; a backward pass would need the "
            "residual that it overwrites. Try inplace=False, or call it inside torch.no_grad().",
        ),
        (
            lambda: add_rms_norm(X, X.bfloat16(), 8, inplace=True),
            DtypeError,
            "add_rms_norm: inplace=True needs a residual that can hold h; residual is "
            "torch.bfloat16 and x is torch.float32. Try inplace=False.",
        ),
        (
            lambda: add_rms_norm(X, X[:1].expand(2, 8), 8, inplace=True),
            StateError,
            "add_rms_norm: inplace=True needs a residual with memory for each element; it is "
            "expanded. Try residual.contiguous().",
        ),
        (
            lambda: vmap(lambda t: add_rms_norm(t, t.clone(), 8, inplace=True))(X),
            StateError,
            "add_rms_norm: inplace=True is not for torch.func and forward-mode derivatives; this "
            "call stands inside one. Try inplace=False.",
        ),
    ],
)
def test_wrong_input_gets_a_sentence(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        call()
