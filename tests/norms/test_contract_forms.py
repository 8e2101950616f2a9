"""The shared contract: shapes, strides, dtypes, autocast, empties, exact bits."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from normkit import functional
from tests.norms.cases import CASES, TOKEN_CASES, Case
from tests.norms.regimes import DTYPES

every_case = pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
token_case = pytest.mark.parametrize("case", TOKEN_CASES, ids=lambda c: c.name)


@given(leading=st.lists(st.integers(0, 3), max_size=4), case=st.sampled_from(TOKEN_CASES))
def test_any_leading_shape_gives_each_row_alone(leading: list[int], case: Case) -> None:
    assert case.row is not None
    layer = case.layer()
    axes = len(case.row)
    x = torch.randn(*leading, *case.row, dtype=torch.float64)
    y = layer(x)
    assert y.shape == x.shape
    for index in itertools.product(*map(range, leading)):
        assert torch.equal(y[index], layer(x[index]))
    assert y.dim() == len(leading) + axes


@every_case
def test_strides_change_no_bit(case: Case) -> None:
    layer = case.layer()
    f = case.function(layer)
    x, dy = case.input(), case.input()
    want = run(f, layer, x, dy)
    for view in (transposed, stepped, offset):
        case.check_layouts(run(f, layer, view(x), view(dy)), want)


@every_case
def test_expanded_input_and_gradient(case: Case) -> None:
    layer = case.layer()
    f = case.function(layer)
    x, dy = case.input()[:1].expand(case.shape), case.input()[..., :1].expand(case.shape)
    want = run(f, layer, x.contiguous(), dy.contiguous())
    for a, b in zip(run(f, layer, x, dy), want, strict=True):
        assert torch.equal(a, b)


@every_case
def test_incoming_gradient_and_input_are_not_written(case: Case) -> None:
    layer = case.layer()
    x, dy = case.input(), case.input()
    kept = x.clone(), dy.clone()
    run(case.function(layer), layer, x, dy)
    assert torch.equal(x, kept[0])
    assert torch.equal(dy, kept[1])


@every_case
@pytest.mark.parametrize("weight_dtype", DTYPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_any_pair_of_dtypes_returns_the_input_dtype(
    case: Case, dtype: torch.dtype, weight_dtype: torch.dtype
) -> None:
    layer = case.layer(weight_dtype)
    x = case.input(dtype).requires_grad_()
    y = case.function(layer, dtype)(x)
    assert y.dtype == dtype
    dy = torch.randn_like(y)
    y.backward(dy)
    assert x.grad is not None
    assert x.grad.dtype == dtype
    for parameter in layer.parameters():
        assert parameter.grad is not None
        assert parameter.grad.dtype == weight_dtype
    exact = case.layer().train(case.training)
    exact.load_state_dict(layer.state_dict())
    rounding = 3 * torch.finfo(dtype).eps
    # A fresh copy in float64, on the same rounded values, is the truth here.
    for name, buffer in layer.named_buffers():
        if buffer.is_floating_point():
            assert buffer.dtype in (torch.float32, torch.float64), name
    if not case.coupled:
        tail = {"rtol": rounding, "atol": rounding}
        if getattr(layer, "rounding", "once") == "before_gain":
            tail = {"rtol": 2 * rounding, "atol": 2 * rounding}
        if getattr(layer, "eps", 0) is None:
            exact.eps = functional.default_eps(dtype)
        others = [t.double() if t.is_floating_point() else t for t in case.arguments(x.detach())]
        torch.testing.assert_close(y.double(), exact(*others), **tail)


@every_case
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_autocast_keeps_the_input_dtype(case: Case, dtype: torch.dtype) -> None:
    layer = case.layer(torch.float32)
    with torch.autocast("cpu", dtype):
        for kept in (dtype, torch.float32):
            assert case.function(layer, kept)(case.input(kept)).dtype == kept


@every_case
def test_an_empty_batch_changes_nothing(case: Case) -> None:
    layer = case.layer()
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    x = torch.empty(0, *case.shape[1:], dtype=torch.float64, requires_grad=True)
    y = layer(*case.arguments(x))
    y.backward(torch.empty_like(y))
    assert y.shape == x.shape
    for parameter in layer.parameters():
        assert parameter.grad is not None
        assert parameter.grad.abs().sum() == 0
    for name, value in layer.state_dict().items():
        assert torch.equal(value, before[name]), name


@every_case
def test_gradients_off_gives_the_same_bits(case: Case) -> None:
    f = case.function(case.layer().eval())
    x = case.input()
    with_graph = f(x.clone().requires_grad_())
    with torch.no_grad():
        assert torch.equal(f(x), with_graph)
    with torch.inference_mode():
        assert torch.equal(f(x), with_graph)


@token_case
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_row_does_not_depend_on_other_rows(case: Case, dtype: torch.dtype) -> None:
    assert case.row is not None
    layer = case.layer(dtype)
    x = torch.randn(257, *case.row).to(dtype)
    y = layer(x)
    for i in (0, 100, 256):
        assert torch.equal(layer(x[i]), y[i])


@pytest.mark.parametrize("width", [1, 3, 100, 5000, 40000])
def test_a_long_row_alone_equals_the_row_in_a_batch(width: int) -> None:
    x = torch.randn(3, width, dtype=torch.float64)
    for norm in (functional.layer_norm, functional.rms_norm):
        assert torch.equal(norm(x[1:2], width), norm(x, width)[1:2])


@pytest.mark.parametrize(("rows", "width"), [(70000, 3), (300, 1000), (3, 100000)])
def test_bits_do_not_depend_on_threads(rows: int, width: int) -> None:
    x, dy = torch.randn(2, rows, width, dtype=torch.float64)
    results = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        weight = torch.ones(width, dtype=torch.float64, requires_grad=True)
        bias = torch.zeros(width, dtype=torch.float64, requires_grad=True)
        y = functional.layer_norm(x, width, weight, bias)
        y.backward(dy)
        results.append((y, weight.grad, bias.grad))
    torch.set_num_threads(1)
    for a, b in zip(*results, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("extra", [1, 100, 40000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_rows_with_zero_gradient_change_no_bit(extra: int, dtype: torch.dtype) -> None:
    x, dy = torch.randn(2, 1000, 48, dtype=dtype)
    more = torch.randn(extra, 48, dtype=dtype)
    grads = []
    for rows, gradient in ((x, dy), (torch.cat([x, more]), torch.cat([dy, more * 0]))):
        weight = torch.ones(48, dtype=dtype, requires_grad=True)
        bias = torch.zeros(48, dtype=dtype, requires_grad=True)
        functional.layer_norm(rows, 48, weight, bias).backward(gradient)
        grads.append((weight.grad, bias.grad))
    for a, b in zip(*grads, strict=True):
        assert torch.equal(a, b)


def run(f: object, layer: torch.nn.Module, x: torch.Tensor, dy: torch.Tensor) -> list[torch.Tensor]:
    """y, dx and the parameters' gradients, from the same statistics each time."""
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    layer.zero_grad()
    leaf = x.detach().requires_grad_()
    y = f(leaf)  # type: ignore[operator]
    y.backward(dy)
    layer.load_state_dict(before)
    assert leaf.grad is not None
    grads = [parameter.grad for parameter in layer.parameters() if parameter.grad is not None]
    return [y.detach(), leaf.grad, *grads]


def transposed(x: torch.Tensor) -> torch.Tensor:
    """The same values with the last axis outermost in memory."""
    return x.movedim(-1, 0).contiguous().movedim(0, -1)


def stepped(x: torch.Tensor) -> torch.Tensor:
    """The same values as every second element of a wider tensor."""
    return torch.stack([x, torch.full_like(x, torch.nan)], -1).flatten(-2)[..., ::2]


def offset(x: torch.Tensor) -> torch.Tensor:
    """The same values inside a larger tensor."""
    return torch.nn.functional.pad(x, (1, 2), value=torch.nan)[..., 1:-2]
