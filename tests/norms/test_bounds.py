"""Every op within the derived error bound, in every regime and dtype, forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from normkit import functional
from normkit.measure import Margin, assert_within, input_gradient_scale, output_scale, sum_scale
from tests.norms.impls import IMPLS, compute_dtype
from tests.norms.regimes import DTYPES, REGIMES, Regime
from tests.norms.truth import Truth, row_truth

SHAPES = [(5, 1), (4, 2), (7, 33), (3, 257), (2, 5000)]


@dataclass(frozen=True, kw_only=True)
class TokenNorm:
    """One choice of options, as our call and as arguments of the truth."""

    name: str
    call: Callable[..., Tensor]
    center: bool
    eps: float = 1e-5
    options: dict[str, Any] = field(default_factory=dict)
    impls: tuple[str, ...] = ("torch",)  # IMPLS where there is a compiled kernel

    def run(self, x: Tensor, weight: Tensor, bias: Tensor, impl: str = "torch") -> Tensor:
        """Our op on (M, N) rows."""
        args = {"weight": weight, "bias": bias, "eps": self.eps, **self.options}
        return self.call(x, x.shape[-1], **args, impl=impl)

    def truth(self, x: Tensor, dy: Tensor, weight: Tensor, bias: Tensor) -> Truth:
        """The truth for the same rounded values."""
        width = x.shape[-1]
        count = int(self.options.get("fraction", 1.0) * width)
        zero_centred = self.options.get("zero_centred", False)
        return row_truth(
            x,
            dy,
            weight.double() + (1.0 if zero_centred else 0.0),
            bias,
            center=self.center,
            eps=self.eps,
            eps_place=self.options.get("eps_place", "inside"),
            measured=torch.arange(width) < count,
        )


def modulated(call: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """An adaptive norm as a zero-centred one: one scale and one shift for all rows."""

    def run(
        x: Tensor,
        width: int,
        weight: Tensor,
        bias: Tensor,
        *,
        eps: float,
        zero_centred: bool,
        impl: str,
    ) -> Tensor:
        assert zero_centred
        return call(x, width, weight, bias, eps, impl=impl)

    return run


LN, RMS = functional.layer_norm, functional.rms_norm
ADAPTIVE_LN = modulated(functional.adaptive_layer_norm)
ADAPTIVE_RMS = modulated(functional.adaptive_rms_norm)
LAYER_NORM = partial(TokenNorm, call=LN, center=True, impls=IMPLS)
RMS_NORM = partial(TokenNorm, call=RMS, center=False, impls=IMPLS)
OUTSIDE, CLAMP = {"eps_place": "outside"}, {"eps_place": "clamp"}
ZERO_CENTRED = {"zero_centred": True}
NORMS = [
    LAYER_NORM(name="layer_norm"),
    LAYER_NORM(name="ln_eps_1e-12", eps=1e-12),
    LAYER_NORM(name="ln_outside", options=OUTSIDE),
    LAYER_NORM(name="ln_clamp", eps=1e-3, options=CLAMP),
    LAYER_NORM(name="ln_zero_centred", options=ZERO_CENTRED),
    RMS_NORM(name="rms_norm"),
    RMS_NORM(name="rms_outside", options=OUTSIDE),
    RMS_NORM(name="rms_clamp", eps=1e-3, options=CLAMP),
    RMS_NORM(name="rms_zero_centred", options=ZERO_CENTRED),
    RMS_NORM(name="rms_fraction", options={"fraction": 0.5}),
    TokenNorm(name="adaptive_ln", call=ADAPTIVE_LN, center=True, options=ZERO_CENTRED),
    TokenNorm(name="adaptive_rms", call=ADAPTIVE_RMS, center=False, options=ZERO_CENTRED),
]


def allowed(norm: TokenNorm, width: int) -> bool:
    """pRMSNorm needs at least one measured feature."""
    return int(norm.options.get("fraction", 1.0) * width) > 0


@pytest.mark.parametrize("regime", REGIMES.values(), ids=REGIMES.keys())
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("norm", NORMS, ids=lambda n: n.name)
def test_token_norms(norm: TokenNorm, dtype: torch.dtype, regime: Regime) -> None:
    for rows, width in SHAPES:
        if not allowed(norm, width):
            continue
        x, dy, weight, bias = draw(regime, rows, width, dtype)
        truth = norm.truth(x, dy, weight, bias)
        gain = weight.double() + (1.0 if norm.options.get("zero_centred") else 0.0)
        for impl in norm.impls:
            leaves = [t.detach().clone().requires_grad_() for t in (x, weight, bias)]
            y = norm.run(*leaves, impl)
            y.backward(dy)
            compute = compute_dtype(impl, x)
            check(y, leaves, truth, gain, center=norm.center, gain_axes=(0,), compute=compute)


@pytest.mark.parametrize("regime", REGIMES.values(), ids=REGIMES.keys())
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("masked", [False, True], ids=["whole", "masked"])
def test_batch_norm(masked: bool, dtype: torch.dtype, regime: Regime) -> None:
    # Channels as rows: the truth of a row norm whose gain belongs to the row.
    for channels, positions in [(3, 2), (7, 33), (3, 257), (2, 5000)]:
        x, dy, _, _ = draw(regime, channels, positions, dtype)
        weight, bias = (1 + 0.3 * torch.randn(2, channels)).to(dtype)
        valid = torch.rand(positions) < 0.7 if masked else None
        truth = row_truth(
            x,
            dy,
            weight[:, None],
            bias[:, None],
            center=True,
            eps=1e-5,
            measured=valid,
            zero_unmeasured=masked,
        )
        leaves = [t.requires_grad_() for t in (x.clone(), weight, bias)]
        y = functional.batch_norm(
            leaves[0],
            None,
            None,
            *leaves[1:],
            training=True,
            channel_axis=0,
            valid=valid,
            impl="torch",  # in float64; for the kernel see test_batch_norm_kernel.py
        ).y
        y.backward(dy)
        gain = weight.detach().double()[:, None]
        check(y, leaves, truth, gain, center=True, gain_axes=(1,))


def test_the_bound_bites() -> None:
    # A bound that no measured error comes near would let faults through.
    for norm in (*NORMS[:6], *NORMS[-2:]):
        for impl in norm.impls:
            # The lanes of a kernel share the rounding of a wide row out.
            x, dy, weight, bias = draw(
                REGIMES["unit"], 64, 257 if impl == "torch" else 2, torch.float32
            )
            truth = norm.truth(x, dy, weight, bias)
            gain = weight.double() + (1.0 if norm.options.get("zero_centred") else 0.0)
            leaves = [t.requires_grad_() for t in (x.clone(), weight, bias)]
            y = norm.run(*leaves, impl)
            y.backward(dy)
            how = {"center": norm.center, "compute": compute_dtype(impl, x)}
            margins = check(y, leaves, truth, gain, gain_axes=(0,), **how)
            if impl != "torch":  # and sum the gradients of gain and bias in float64
                margins = margins[:2]
            assert all(m.bites for m in margins), (norm.name, impl)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_path_without_float64(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    # Apple's GPUs have no float64; the float32 path that they take is tested here.
    monkeypatch.setattr("normkit.ops.precision._WITHOUT_FLOAT64", ("cpu",))
    if dtype == torch.float64:
        return
    for name, regime in REGIMES.items():
        x, dy, weight, bias = draw(regime, 7, 257, dtype)
        for norm in (NORMS[0], NORMS[5]):
            truth = norm.truth(x, dy, weight, bias)
            y = norm.run(x, weight, bias)
            assert_within(
                y,
                truth.y,
                compute_dtype=torch.float32,
                terms=257,
                row_scale=output_scale(truth.x_hat, weight.double(), bias.double()),
                what=f"{norm.name} {name}",
            )


def draw(regime: Regime, rows: int, width: int, dtype: torch.dtype) -> tuple[Tensor, ...]:
    """x in the regime, dy, weight and bias of the same dtype."""
    x = regime(rows, width, dtype)
    dy = torch.randn(rows, width, dtype=torch.float64).to(dtype)
    weight, bias = (1 + 0.3 * torch.randn(2, width, dtype=torch.float64)).to(dtype)
    return x, dy, weight, bias


def check(
    y: Tensor,
    leaves: list[Tensor],
    truth: Truth,
    gain: Tensor,
    *,
    center: bool,
    gain_axes: tuple[int, ...],
    compute: torch.dtype = torch.float64,
) -> list[Margin]:
    """Hold y and all gradients to the bound of a computation in ``compute``."""
    x, weight, bias = leaves
    width = x.shape[-1]
    fixed = {"compute_dtype": compute}
    bias64 = bias.detach().double().reshape(gain.shape)
    assert x.grad is not None
    assert weight.grad is not None
    assert bias.grad is not None
    summed = max(x.shape)
    outputs = output_scale(truth.x_hat, gain, bias64)
    inputs = input_gradient_scale(truth.g, truth.x_hat, truth.inverse, center=center)
    # A term dy * x_hat carries the error of x_hat, which is one of its row.
    row_terms = truth.bias_terms * truth.x_hat.abs().amax(-1, keepdim=True)
    by_weight = sum_scale(row_terms, axes=gain_axes)
    by_bias = sum_scale(truth.bias_terms, axes=gain_axes)
    dweight, dbias = truth.weight_terms.sum(gain_axes), truth.bias_terms.sum(gain_axes)
    return [
        assert_within(y, truth.y, terms=width, row_scale=outputs, what="y", **fixed),
        assert_within(x.grad, truth.dx, terms=width, row_scale=inputs, what="dx", **fixed),
        assert_within(weight.grad, dweight, terms=summed, row_scale=by_weight, what="dw", **fixed),
        assert_within(bias.grad, dbias, terms=summed, row_scale=by_bias, what="db", **fixed),
    ]
