"""Adaptive LayerNorm and what it shares with adaptive RMSNorm: DiT's formula, shapes, sentences."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import normkit
from normkit.errors import DtypeError, OptionError, ShapeError
from normkit.functional import adaptive_layer_norm, adaptive_rms_norm, layer_norm, rms_norm

every_norm = pytest.mark.parametrize("name", ["AdaptiveLayerNorm", "AdaptiveRMSNorm"])
PLAIN = {"AdaptiveLayerNorm": layer_norm, "AdaptiveRMSNorm": rms_norm}
CALL = {"AdaptiveLayerNorm": adaptive_layer_norm, "AdaptiveRMSNorm": adaptive_rms_norm}


def modulate(x: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    """DiT's own, with one shift and scale per sample."""
    return x * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


def draw(*shapes: tuple[int, ...]) -> list[Tensor]:
    """A leaf of each shape."""
    return [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in shapes]


def test_equals_the_code_of_dit() -> None:
    x, scale, shift = leaves = draw((2, 3, 4), (2, 4), (2, 4))
    want = modulate(nn.LayerNorm(4, eps=1e-6, elementwise_affine=False)(x), shift, scale)
    got = adaptive_layer_norm(x, 4, scale, shift)
    dy = torch.randn_like(x)
    results = [(y, *torch.autograd.grad(y, leaves, dy)) for y in (got, want)]
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-11)


@every_norm
def test_per_token_per_sample_and_for_all(name: str) -> None:
    x, scale, shift = draw((2, 3, 4), (2, 3, 4), (2, 3, 4))
    unit = PLAIN[name](x, 4, eps=1e-6)
    call = CALL[name]
    torch.testing.assert_close(call(x, 4, scale, shift), unit * (1 + scale) + shift)
    torch.testing.assert_close(call(x, 4, scale), unit * (1 + scale))
    sample = scale[:, :1]
    torch.testing.assert_close(call(x, 4, sample), unit * (1 + sample))
    assert torch.equal(call(x, 4, sample[:, 0]), call(x, 4, sample))  # (B, D)
    position = scale[0]
    torch.testing.assert_close(call(x, 4, position, position), unit * (1 + position) + position)
    torch.testing.assert_close(call(x, 4, scale[0, 0]), unit * (1 + scale[0, 0]))


@every_norm
def test_the_gradient_of_scale_and_shift_is_the_sum_over_tokens(name: str) -> None:
    x, scale, shift = draw((2, 3, 4), (2, 1, 4), (2, 1, 4))
    dy = torch.randn(2, 3, 4, dtype=torch.float64)
    y = CALL[name](x, 4, scale, shift)
    dscale, dshift = torch.autograd.grad(y, (scale, shift), dy)
    unit = PLAIN[name](x.detach(), 4, eps=1e-6)
    torch.testing.assert_close(dscale, (dy * unit).sum(1, keepdim=True))
    torch.testing.assert_close(dshift, dy.sum(1, keepdim=True))


@every_norm
def test_sums_over_tokens_do_not_stop_growing(name: str) -> None:
    # pytorch#77507, helion#2273: sums kept in bfloat16 stop at 256.
    x = torch.tensor([1.0, -1.0]).expand(1, 3000, 2).bfloat16()
    scale = torch.zeros(1, 1, 2, requires_grad=True)
    shift = torch.zeros(1, 1, 2, requires_grad=True)
    y = CALL[name](x, 2, scale, shift, 0.0)
    y.backward(torch.ones_like(y))
    assert torch.equal(shift.grad, torch.full((1, 1, 2), 3000.0))
    assert torch.equal(scale.grad, torch.tensor([[[3000.0, -3000.0]]]))


@every_norm
def test_the_gradient_of_the_shift_is_a_tensor_of_its_own(name: str) -> None:
    x, scale, shift = draw((3, 4), (3, 4), (3, 4))
    dy = torch.randn(3, 4, dtype=torch.float64)
    (dshift,) = torch.autograd.grad(CALL[name](x, 4, scale, shift), shift, dy)
    assert torch.equal(dshift, dy)
    assert dshift.data_ptr() != dy.data_ptr()


@every_norm
def test_a_row_does_not_depend_on_other_rows(name: str) -> None:
    x, scale, shift = torch.randn(3, 257, 6)
    y = CALL[name](x, 6, scale, shift)
    for i in (0, 100, 256):
        assert torch.equal(CALL[name](x[i], 6, scale[i], shift[i]), y[i])


@every_norm
def test_the_output_has_the_dtype_of_x(name: str) -> None:
    x, scale = torch.randn(2, 3, 8).bfloat16(), torch.randn(2, 1, 8)
    assert CALL[name](x, 8, scale, scale.double()).dtype == torch.bfloat16
    layer = getattr(normkit, name)(8, 5, gate=True)
    y, gate = layer(x, torch.randn(2, 5))
    assert y.dtype == gate.dtype == torch.bfloat16


@every_norm
def test_a_new_layer_is_the_plain_norm(name: str) -> None:
    layer = getattr(normkit, name)(4, 5, eps=0.3, gate=True, dtype=torch.float64)
    x, condition = torch.randn(2, 3, 4).double(), torch.randn(2, 5).double()
    y, gate = layer(x, condition)
    assert torch.equal(y, PLAIN[name](x, 4, eps=0.3))
    assert gate.shape == (2, 1, 4)
    assert gate.abs().sum() == 0
    assert [(n, tuple(p.shape)) for n, p in layer.named_parameters()] == [
        ("projection.weight", (12, 5)),
        ("projection.bias", (12,)),
    ]
    assert layer.weight is None
    assert layer.bias is None


@every_norm
def test_condition_per_sample_and_per_token(name: str) -> None:
    layer = getattr(normkit, name)((2, 4), 5, zero_init=False, gate=True, dtype=torch.float64)
    x, condition = torch.randn(3, 7, 2, 4).double(), torch.randn(3, 5).double()
    parts = layer.projection(F.silu(condition)).reshape(3, 3, 1, 2, 4).unbind(1)
    shift, scale, want_gate = (part.reshape(3, 1, 2, 4) for part in parts)
    y, gate = layer(x, condition)
    assert torch.equal(gate, want_gate)
    want = PLAIN[name](x, (2, 4), eps=1e-6) * (1 + scale) + shift
    torch.testing.assert_close(y, want)
    each, gates = layer(x, condition[:, None].expand(3, 7, 5))
    torch.testing.assert_close(each, y)
    torch.testing.assert_close(gates, gate.expand(3, 7, 2, 4))
    for_all, _ = layer(x, condition[0])
    torch.testing.assert_close(for_all[0], y[0])


@every_norm
def test_activation_none(name: str) -> None:
    condition = torch.randn(2, 5)
    x = torch.randn(2, 3, 4)
    layer = getattr(normkit, name)(4, 5, zero_init=False)
    bare = getattr(normkit, name)(4, 5, activation="none")
    bare.load_state_dict(layer.state_dict())
    assert torch.equal(bare(x, F.silu(condition)), layer(x, condition))
    assert "activation='none'" in repr(bare)


@every_norm
def test_zero_init_survives_a_reset_of_every_module(name: str) -> None:
    # What meta-device initialisation does: parents first, then the Linear inside.
    with torch.device("meta"):
        layer = getattr(normkit, name)(4, 5)
    layer.to_empty(device="cpu")
    for module in layer.modules():
        module.reset_parameters()
    assert all(p.abs().sum() == 0 for p in layer.parameters())
    started = getattr(normkit, name)(4, 5, zero_init=False)
    assert all(p.abs().sum() > 0 for p in started.parameters())


class DiTBlock(nn.Module):
    """A tiny block of DiT: attention and feed-forward, each gated by its norm."""

    def __init__(self, width: int, condition_width: int) -> None:
        super().__init__()
        options: dict[str, Any] = {"gate": True, "dtype": torch.float64}
        self.norm1 = normkit.AdaptiveLayerNorm(width, condition_width, **options)
        self.norm2 = normkit.AdaptiveLayerNorm(width, condition_width, **options)
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True, dtype=torch.float64)
        self.ffn = nn.Linear(width, width, dtype=torch.float64)

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        """Two branches."""
        y, gate = self.norm1(x, condition)
        x = x + gate * self.attention(y, y, y, need_weights=False)[0]
        y, gate = self.norm2(x, condition)
        return x + gate * self.ffn(y)


def test_a_block_of_dit_is_the_identity_at_the_start_and_learns() -> None:
    block = DiTBlock(4, 5)
    x, condition = torch.randn(2, 3, 4).double(), torch.randn(2, 5).double()
    y = block(x, condition)
    assert torch.equal(y, x)
    (y * torch.randn_like(y)).sum().backward()
    for norm in (block.norm1, block.norm2):
        shift_and_scale, gate = norm.projection.weight.grad.split((8, 4))  # type: ignore[union-attr, operator]
        assert gate.abs().max() > 0.01  # the gates open first
        assert shift_and_scale.abs().sum() == 0


def test_the_weights_of_a_dit_block_fit() -> None:
    # One Linear gives six parts in DiT; the order inside a half is ours. (FLUX's and diffusers'
    # last layers have scale before shift: InvokeAI#7708, stable-diffusion.cpp#1707.)
    modulation = nn.Sequential(nn.SiLU(), nn.Linear(5, 24, dtype=torch.float64))
    block = DiTBlock(4, 5)
    for norm, rows in ((block.norm1, slice(0, 12)), (block.norm2, slice(12, 24))):
        state = {name: value[rows] for name, value in modulation[1].state_dict().items()}
        norm.projection.load_state_dict(state)
    x, c = torch.randn(2, 3, 4).double(), torch.randn(2, 5).double()
    shift1, scale1, gate1, shift2, scale2, gate2 = modulation(c).chunk(6, dim=1)
    plain = nn.LayerNorm(4, eps=1e-6, elementwise_affine=False)
    y = modulate(plain(x), shift1, scale1)
    want = x + gate1.unsqueeze(1) * block.attention(y, y, y, need_weights=False)[0]
    want = want + gate2.unsqueeze(1) * block.ffn(modulate(plain(want), shift2, scale2))
    torch.testing.assert_close(block(x, c), want)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: adaptive_layer_norm(torch.ones(3, 3, 8), 8, torch.ones(3, 8)),
            ShapeError,
            "adaptive_layer_norm: scale must say whether its rows are samples or positions; "
            "it is (3, 8) for x (3, 3, 8). "
            "Try scale[:, None] for one per sample, scale[None] for one per position.",
        ),
        (
            lambda: adaptive_rms_norm(
                torch.ones(3, 2, 3, 8), 8, torch.ones(8), shift=torch.ones(3, 8)
            ),
            ShapeError,
            "adaptive_rms_norm: shift must say whether its rows are samples or positions; "
            "it is (3, 8) for x (3, 2, 3, 8). "
            "Try shift[:, None, None] for one per sample, shift[None] for one per position.",
        ),
        (
            lambda: adaptive_layer_norm(torch.ones(2, 3, 8), 8, torch.ones(4, 8)),
            ShapeError,
            "adaptive_layer_norm: scale must be broadcastable to x, (2, 3, 8); it is (4, 8).",
        ),
        (
            lambda: adaptive_layer_norm(torch.ones(2, 8), 8, torch.ones(2, 8).int()),
            DtypeError,
            "adaptive_layer_norm: scale must be a floating-point tensor; it is torch.int32.",
        ),
        (
            lambda: normkit.AdaptiveLayerNorm(8, 5)(torch.ones(2, 3, 8), torch.ones(2, 4)),
            ShapeError,
            "AdaptiveLayerNorm: condition must be (2, 5), one per sample, or (2, 3, 5), one per "
            "token; it is (2, 4) for x (2, 3, 8).",
        ),
        (
            lambda: normkit.AdaptiveRMSNorm(8, 5)(torch.ones(2, 3, 8), torch.ones(3, 5)),
            ShapeError,
            "AdaptiveRMSNorm: condition must be (2, 5), one per sample, or (2, 3, 5), one per "
            "token; it is (3, 5) for x (2, 3, 8).",
        ),
        (
            lambda: normkit.AdaptiveRMSNorm(8, 0),
            OptionError,
            "AdaptiveRMSNorm: condition_width must be an integer of at least 1; it is 0.",
        ),
        (
            lambda: normkit.AdaptiveLayerNorm(8, 5, activation="gelu"),  # type: ignore[arg-type]
            OptionError,
            "AdaptiveLayerNorm: activation must be 'silu' or 'none'; activation is 'gelu'.",
        ),
    ],
)
def test_wrong_input_gets_a_sentence(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        call()
