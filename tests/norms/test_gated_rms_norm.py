"""Gated RMSNorm against public code, within the bound in every regime, and its sentences."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import silu

import normkit
from normkit.errors import DtypeError, OptionError, ShapeError
from normkit.functional import gated_rms_norm, rms_norm
from normkit.measure import Margin, assert_within, input_gradient_scale, output_scale, sum_scale
from normkit.measure.bound import largest
from tests.norms.regimes import DTYPES, REGIMES
from tests.norms.truth import Truth, row_truth

HALVES = (torch.bfloat16, torch.float16)
every_half = pytest.mark.parametrize("dtype", HALVES, ids=str)


def qwen3_next(x: Tensor, gate: Tensor, weight: Tensor, eps: float) -> Tensor:
    """The formula of transformers' Qwen3-Next: norm, round, gain, then the gate."""
    wide = x.float()
    unit = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return (weight * unit.to(x.dtype) * silu(gate.float())).to(x.dtype)


def zamba2(x: Tensor, gate: Tensor, weight: Tensor, eps: float, group: int) -> Tensor:
    """The formula of transformers' Zamba 2, and with one group its Mamba 2: the gate first."""
    wide = (x.float() * silu(gate.float())).unflatten(-1, (-1, group))
    unit = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return weight * unit.flatten(-2).to(x.dtype)


def mamba_ssm(
    x: Tensor, z: Tensor, weight: Tensor, eps: float, group: int, norm_before_gate: bool
) -> Tensor:
    """The formula of mamba_ssm's rms_norm_ref: all in float32, rounded once."""
    wide = x.float() if norm_before_gate else x.float() * silu(z.float())
    wide = wide.unflatten(-1, (-1, group))
    rstd = 1 / (wide.square().mean(-1, keepdim=True) + eps).sqrt()
    y = (wide * rstd).flatten(-2) * weight.float()
    return (y * silu(z.float()) if norm_before_gate else y).to(x.dtype)


def differing(a: Tensor, b: Tensor) -> float:
    """Share of elements that differ."""
    assert a.dtype == b.dtype
    return (a != b).double().mean().item()


def draw(*shape: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """x, gate, a weight and a bias of the last axis."""
    x, gate = torch.randn(2, *shape, dtype=torch.float64)
    parameters = 1 + 0.3 * torch.randn(2, shape[-1], dtype=torch.float64)
    return [t.to(dtype) for t in (x, gate, *parameters)]


@every_half
def test_rounding_as_in_public_code(dtype: torch.dtype) -> None:
    # transformers#25421, #30236: what looks like a wrong kernel is another order of rounding.
    x, gate, weight, _ = draw(64, 512, dtype=dtype)
    after, before = {"gate_place": "after"}, {"gate_place": "before", "groups": 4}
    cases: list[tuple[Tensor, dict[str, Any]]] = [
        (qwen3_next(x, gate, weight, 1e-6), {**after, "rounding": "before_gain"}),
        (zamba2(x, gate, weight, 1e-6, 128), {**before, "rounding": "before_gain"}),
        (mamba_ssm(x, gate, weight, 1e-6, 512, True), {**after, "rounding": "once"}),
        (mamba_ssm(x, gate, weight, 1e-6, 128, False), {**before, "rounding": "once"}),
    ]
    for theirs, options in cases:
        assert differing(gated_rms_norm(x, gate, 512, weight, **options), theirs) < 1e-3, options
        other = {"once": "before_gain", "before_gain": "once"}[options["rounding"]]
        swapped = gated_rms_norm(x, gate, 512, weight, **{**options, "rounding": other})  # type: ignore[arg-type]
        assert differing(swapped, theirs) > 0.1, options


def test_a_float32_weight_rounds_the_product_of_qwen3_next_no_more() -> None:
    x, gate, weight, _ = draw(64, 512, dtype=torch.bfloat16)
    weight = weight.float() + 1e-3
    got = gated_rms_norm(x, gate, 512, weight, rounding="before_gain")
    assert differing(got, qwen3_next(x, gate, weight, 1e-6)) < 1e-3
    assert differing(got, qwen3_next(x, gate, weight.bfloat16(), 1e-6)) > 0.1


def test_by_number() -> None:
    x, gate = torch.tensor([[3.0, 4.0]], dtype=torch.float64), torch.tensor([[0.0, 1.0]])
    a = torch.tensor([0.0, 1 / (1 + torch.e**-1)], dtype=torch.float64)  # silu(1) = sigmoid(1)
    after = gated_rms_norm(x, gate, 2, eps=0.0)
    torch.testing.assert_close(after, x / 12.5**0.5 * a)
    before = gated_rms_norm(x, gate, 2, eps=0.0, gate_place="before")
    torch.testing.assert_close(before, torch.tensor([[0.0, 2**0.5]], dtype=torch.float64))
    sigmoid = gated_rms_norm(x, gate, 2, eps=0.0, gate_function="sigmoid")
    torch.testing.assert_close(sigmoid[0, 0], x[0, 0] / 12.5**0.5 / 2)


def test_bias_and_zero_centred_gain() -> None:
    x, gate, weight, bias = draw(3, 4)
    unit = rms_norm(x, 4, eps=1e-6)
    want = (unit * (1 + weight) + bias) * silu(gate)
    got = gated_rms_norm(x, gate, 4, weight, bias=bias, zero_centred=True)
    torch.testing.assert_close(got, want)
    want = rms_norm(x * silu(gate), 4, eps=1e-6) * (1 + weight) + bias
    got = gated_rms_norm(x, gate, 4, weight, bias=bias, zero_centred=True, gate_place="before")
    torch.testing.assert_close(got, want)


def test_the_two_places_differ() -> None:
    # flash-linear-attention#63: trained with the gate before, run with the gate after.
    x, gate, weight, _ = draw(3, 8)
    after = gated_rms_norm(x, gate, 8, weight)
    assert (after - gated_rms_norm(x, gate, 8, weight, gate_place="before")).abs().max() > 0.1


@pytest.mark.parametrize("place", ["after", "before"])
def test_groups_are_contiguous_and_alone(place: Any) -> None:
    # transformers#35943, llama.cpp#15507, mamba#910: one mean square over all features instead;
    # mamba#547: right forward, but a backward pass without groups.
    x, gate, weight, _ = draw(5, 6)
    leaves = [t.requires_grad_() for t in (x, gate, weight)]
    y = gated_rms_norm(x, gate, 6, weight, gate_place=place, groups=3)
    dy = torch.randn(5, 6, dtype=torch.float64)
    got = torch.autograd.grad(y, leaves, dy)
    for first in (0, 2, 4):
        part = slice(first, first + 2)
        alone = [t.detach()[..., part].clone().requires_grad_() for t in leaves]
        y_part = gated_rms_norm(alone[0], alone[1], 2, alone[2], gate_place=place)
        assert torch.equal(y[:, part], y_part)
        for a, b in zip(got, torch.autograd.grad(y_part, alone, dy[:, part]), strict=True):
            assert torch.equal(a[..., part], b)
    whole = gated_rms_norm(x, gate, 6, weight, gate_place=place)
    assert (y - whole).abs().max() > 0.01


@pytest.mark.parametrize("gate_dtype", DTYPES, ids=str)
@every_half
def test_output_and_gradients_keep_their_dtypes(
    dtype: torch.dtype, gate_dtype: torch.dtype
) -> None:
    # vllm#18500, #35369: a float32 gate turned the output to float32, and the next Linear raised.
    x, gate = torch.randn(3, 8).to(dtype), torch.randn(3, 8).to(gate_dtype)
    weight = torch.ones(8, requires_grad=True)
    for place in ("after", "before"):
        leaves = (x.requires_grad_(), gate.requires_grad_(), weight)
        y = gated_rms_norm(*leaves[:2], 8, weight, gate_place=place)  # type: ignore[arg-type]
        assert y.dtype == dtype
        gradients = torch.autograd.grad(y.sum(), leaves)
        assert [g.dtype for g in gradients] == [dtype, gate_dtype, torch.float32]


def test_a_gate_for_many_rows_gets_the_sum() -> None:
    x, _, weight, _ = draw(2, 3, 4)
    gate = torch.randn(2, 1, 4, dtype=torch.float64, requires_grad=True)
    y = gated_rms_norm(x, gate, 4, weight)
    full = gate.detach().expand(2, 3, 4).clone().requires_grad_()
    y_full = gated_rms_norm(x, full, 4, weight)
    assert torch.equal(y, y_full)
    (got,), (want,) = torch.autograd.grad(y.sum(), gate), torch.autograd.grad(y_full.sum(), full)
    torch.testing.assert_close(got, want.sum(1, keepdim=True))


def test_a_row_does_not_depend_on_other_rows() -> None:
    x, gate, weight, bias = draw(257, 6, dtype=torch.float32)
    for place, groups in itertools.product(("after", "before"), (1, 2)):
        options: dict[str, Any] = {"bias": bias, "gate_place": place, "groups": groups}
        y = gated_rms_norm(x, gate, 6, weight, **options)
        for i in (0, 100, 256):
            assert torch.equal(gated_rms_norm(x[i], gate[i], 6, weight, **options), y[i])


def test_parameter_gradients_do_not_stop_growing() -> None:
    # pytorch#77507, helion#2273: sums kept in bfloat16 stop at 256.
    x, gate = torch.ones(3000, 2).bfloat16(), torch.full((3000, 2), 40.0).bfloat16()
    weight, bias = torch.ones(2, requires_grad=True), torch.zeros(2, requires_grad=True)
    y = gated_rms_norm(x, gate, 2, weight, 0.0, bias=bias, gate_function="sigmoid")
    y.backward(torch.ones_like(y))
    for parameter in (weight, bias):
        torch.testing.assert_close(parameter.grad, torch.full((2,), 3000.0))


@pytest.mark.parametrize("size", [1.0, 1e150, 1e300])
@pytest.mark.parametrize("gate_size", [1.0, 1e150, 1e300])
def test_a_product_beyond_float64_keeps_its_value(size: float, gate_size: float) -> None:
    # silu(t) is t for large t, so both scales cancel but for eps.
    x = torch.tensor([[1.0, -2.0, 0.5, 0.0]], dtype=torch.float64)
    gate = torch.tensor([[40.0, 50.0, 60.0, 70.0]], dtype=torch.float64)
    want = rms_norm(x * gate, 4, eps=0.0)
    leaves = [(size * x).requires_grad_(), (gate_size * gate).requires_grad_()]
    y = gated_rms_norm(*leaves, 4, eps=1e-9, gate_place="before")
    torch.testing.assert_close(y, want, rtol=1e-9, atol=1e-9)
    v = torch.tensor([[1.0, 2.0, 3.0, 4.0]], dtype=torch.float64)
    gradients = torch.autograd.grad((y * v).sum(), leaves)
    exact = [x.clone().requires_grad_(), gate.clone().requires_grad_()]
    true = torch.autograd.grad((rms_norm(exact[0] * exact[1], 4, eps=0.0) * v).sum(), exact)
    for got, right, scale in zip(gradients, true, (size, gate_size), strict=True):
        torch.testing.assert_close(got * scale, right, rtol=1e-8, atol=1e-8)


def test_float32_rows_and_a_huge_float64_gate() -> None:
    x = torch.tensor([[1e30, -2e30]], requires_grad=True)
    gate = torch.tensor([[1e300, 1e300]], dtype=torch.float64, requires_grad=True)
    y = gated_rms_norm(x, gate, 2, gate_place="before")
    torch.testing.assert_close(y, torch.tensor([[1.0, -2.0]]) / 2.5**0.5)
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()


def slopes(gate: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """silu, its derivative, and the size of that one's terms, which cancel near -1.28."""
    g = gate.double()
    e = torch.exp(-g)
    return g / (1 + e), (1 + e + g * e) / (1 + e).square(), (1 + e + g.abs() * e) / (1 + e).square()


@pytest.mark.parametrize("place", ["after", "before"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_within_the_bound_in_every_regime(dtype: torch.dtype, place: str) -> None:
    for (name, regime), (rows, width) in itertools.product(
        REGIMES.items(), [(5, 1), (7, 33), (3, 257)]
    ):
        x, dy = regime(rows, width, dtype), torch.randn(rows, width).to(dtype)
        _, gate, weight, bias = draw(rows, width, dtype=dtype)
        assert check(place, [x.clone(), gate, weight, bias], dy), name


@pytest.mark.parametrize("place", ["after", "before"])
def test_the_bound_bites(place: str) -> None:
    leaves = draw(64, 257, dtype=torch.float32)
    margins = check(place, leaves, torch.randn(64, 257))
    assert all(m.bites for m in margins)


def check(place: str, leaves: list[Tensor], dy: Tensor, impl: str = "torch") -> list[Margin]:
    """Hold y and all gradients to the bound: of a float64 computation, in torch operations."""
    x, gate, weight, bias = leaves = [t.requires_grad_() for t in leaves]
    options: dict[str, Any] = {"bias": bias, "gate_place": place, "impl": impl}
    y = gated_rms_norm(x, gate, x.shape[-1], weight, 1e-5, **options)
    compute = torch.float64 if impl == "torch" else torch.promote_types(x.dtype, torch.float32)
    gradients = torch.autograd.grad(y, leaves, dy)
    (a, slope, slope_terms), w, b = (
        slopes(gate.detach()),
        weight.detach().double(),
        bias.detach().double(),
    )
    after = place == "after"
    u, gain, shift = (x, w * a, b * a) if after else (x.double() * a, w, b)
    truth = row_truth(u, dy, gain, shift, center=False, eps=1e-5)
    expand = torch.ones_like(a)
    d_gained = dy.double() * (a if after else expand)
    dx = truth.dx if after else truth.dx * a
    inputs = input_gradient_scale(truth.g, truth.x_hat, truth.inverse, center=False)
    dgate, dgate_scale = gate_gradient(truth, x.detach().double(), dy.double(), (w, b), after)
    wide = d_gained.abs() * largest(truth.x_hat, (-1,))
    n, m = x.shape[-1], max(x.shape)
    expected = [
        (y, truth.y, n, output_scale(truth.x_hat, gain, shift)),
        (gradients[0], dx, n, inputs if after else inputs * a.abs()),
        (gradients[1], dgate * slope, n, dgate_scale * slope_terms),
        (gradients[2], (d_gained * truth.x_hat).sum(0), m, sum_scale(wide, axes=(0,))),
        (gradients[3], d_gained.sum(0), m, sum_scale(d_gained, axes=(0,))),
    ]
    names = ("y", "dx", "dgate", "dweight", "dbias")
    return [
        assert_within(got, true, compute_dtype=compute, terms=terms, row_scale=scale, what=what)
        for what, (got, true, terms, scale) in zip(names, expected, strict=True)
    ]


def gate_gradient(
    truth: Truth, x: Tensor, dy: Tensor, parameters: tuple[Tensor, Tensor], after: bool
) -> tuple[Tensor, Tensor]:
    """dgate but for the slope, and the size of its terms."""
    w, b = parameters
    if after:
        size = largest(truth.x_hat * w, (-1,)) + b.abs()
        return dy * (truth.x_hat * w + b), dy.abs() * size
    pull = truth.x_hat * (truth.g * truth.x_hat).mean(-1, keepdim=True)
    scale = input_gradient_scale(truth.g, truth.x_hat, torch.ones_like(truth.g), center=False)
    unit = x * truth.inverse
    return (truth.g - pull) * unit, scale * unit.abs()


@pytest.mark.parametrize(
    "options",
    [
        {"eps": 0.3},
        {"gate_function": "sigmoid"},
        {"gate_place": "before"},
        {"groups": 2},
        {"zero_centred": True},
        {"rounding": "before_gain"},
        {"bias": True},
    ],
    ids=str,
)
def test_options_arrive(options: dict[str, Any]) -> None:
    x, gate, weight, bias = draw(16, 8, dtype=torch.bfloat16)
    layer, plain = normkit.GatedRMSNorm(8, **options), normkit.GatedRMSNorm(8)
    for each in (layer, plain):
        each.load_state_dict({"weight": weight}, strict=False)
    if layer.bias is not None:
        layer.load_state_dict({"weight": weight, "bias": bias})
        options = {"bias": layer.bias}
    want = gated_rms_norm(x, gate, 8, layer.weight, **options)
    assert torch.equal(layer(x, gate), want)
    assert not torch.equal(layer(x, gate), plain(x, gate))


def test_a_layer_as_torch_and_its_users_expect_it() -> None:
    layer = normkit.GatedRMSNorm(8, gate_place="before", groups=2)
    assert list(layer.state_dict()) == ["weight"]  # as in transformers and mamba_ssm
    assert layer.bias is None
    assert normkit.GatedRMSNorm(8, elementwise_affine=False).weight is None
    text = "GatedRMSNorm((8,), eps=1e-06, elementwise_affine=True, gate_place='before', groups=2)"
    assert repr(layer) == text
    assert repr(normkit.GatedRMSNorm(8, bias=True)).endswith("elementwise_affine=True, bias=True)")
    assert normkit.GatedRMSNorm(8, zero_centred=True).weight.abs().sum() == 0  # type: ignore[union-attr]
    x, gate = torch.randn(2, 3, 8)
    new, centred = normkit.GatedRMSNorm(8), normkit.GatedRMSNorm(8, zero_centred=True)
    assert torch.equal(new(x, gate), centred(x, gate))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: normkit.GatedRMSNorm(6, groups=4),
            OptionError,
            "GatedRMSNorm: groups must divide the 6 features; it is 4. "
            "Where you know the size of a group, type groups=features // group_size.",
        ),
        (
            lambda: normkit.GatedRMSNorm(8, gate_function="swish"),  # type: ignore[arg-type]
            OptionError,
            "GatedRMSNorm: gate_function must be 'silu' or 'sigmoid'; gate_function is 'swish'.",
        ),
        (
            lambda: normkit.GatedRMSNorm(8, gate_place="inside"),  # type: ignore[arg-type]
            OptionError,
            "GatedRMSNorm: gate_place must be 'after' or 'before'; gate_place is 'inside'.",
        ),
        (
            lambda: normkit.GatedRMSNorm(8)(torch.ones(2, 8), torch.ones(3, 8)),
            ShapeError,
            "gated_rms_norm: gate must be broadcastable to x, (2, 8); it is (3, 8).",
        ),
        (
            lambda: gated_rms_norm(torch.ones(2, 8), torch.ones(2, 8) > 0, 8),
            DtypeError,
            "gated_rms_norm: gate must be a floating-point tensor; it is torch.bool.",
        ),
        (
            lambda: gated_rms_norm(torch.ones(2, 8), None, 8),  # type: ignore[arg-type]
            DtypeError,
            "gated_rms_norm: gate must be a floating-point tensor; it is NoneType.",
        ),
        (
            lambda: normkit.GatedRMSNorm(4)(torch.ones(2, 8), torch.ones(2, 8)),
            ShapeError,
            "gated_rms_norm: the last axis of x must be 4; x is (2, 8). Try normalized_shape=8.",
        ),
    ],
)
def test_wrong_input_gets_a_sentence(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        call()
