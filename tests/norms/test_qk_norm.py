"""QK-norm: public formulas, the bound on logits, rotary positions, heads, sentences."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import normkit
from normkit.errors import DtypeError, OptionError, ShapeError
from normkit.functional import layer_norm, qk_norm, rms_norm, scale_for_length

F64 = torch.float64
B, H, T, D = 2, 4, 5, 8


def heads(count: int = H, dtype: torch.dtype = F64) -> Tensor:
    """Random vectors (B, H, T, D)."""
    return torch.randn(B, count, T, D, dtype=F64).to(dtype)


def scrambled(norm: normkit.QKNorm) -> normkit.QKNorm:
    """Parameters that no default hides behind."""
    with torch.no_grad():
        for parameter in norm.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return norm


def rotated(x: Tensor, start: int = 0) -> Tensor:
    """Rotary positions in the form that Llama's code gave them: two halves."""
    length, width = x.shape[-2:]
    rate = 10000.0 ** (-torch.arange(0, width, 2, dtype=F64) / width)
    angle = torch.outer(torch.arange(start, start + length, dtype=F64), rate).repeat(1, 2)
    first, second = x.chunk(2, -1)
    return x * angle.cos() + torch.cat((-second, first), -1) * angle.sin()


def test_one_gain_for_all_heads_as_in_qwen_and_gemma() -> None:
    # transformers' Qwen3: q_norm = RMSNorm(head_dim) after the view into heads, before rotary.
    norm = scrambled(normkit.QKNorm(D, dtype=F64))
    assert {n: p.shape for n, p in norm.named_parameters()} == {"q_weight": (D,), "k_weight": (D,)}
    q, k = heads(), heads(2)
    got_q, got_k = norm(q, k)
    for got, x, w in ((got_q, q, norm.q_weight), (got_k, k, norm.k_weight)):
        want = w * (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6))
        torch.testing.assert_close(got, want)
    centred = scrambled(normkit.QKNorm(D, zero_centred=True, dtype=F64))
    want = (1 + centred.k_weight) * rms_norm(k, D, eps=1e-6)
    torch.testing.assert_close(centred(q, k)[1], want)


def test_gain_of_all_features_as_in_olmo() -> None:
    # transformers' Olmo2: q_norm = RMSNorm(heads * head_dim) on the projection, before the view.
    # mlxcel#317 and litgpt#1894 took it over a head.
    norm = scrambled(normkit.QKNorm(D, H, 2, over="projection", dtype=F64))
    assert norm.q_weight.shape == (H * D,)
    assert norm.k_weight.shape == (2 * D,)
    projections = torch.randn(B, T, H * D, dtype=F64), torch.randn(B, T, 2 * D, dtype=F64)
    split = [x.view(B, T, -1, D).transpose(1, 2) for x in projections]
    for got, x, w in zip(norm(*split), projections, (norm.q_weight, norm.k_weight), strict=True):
        want = rms_norm(x, x.shape[-1], w, 1e-6).view(B, T, -1, D).transpose(1, 2)
        torch.testing.assert_close(got, want)
    assert not torch.allclose(norm(*split)[0], normkit.QKNorm(D, dtype=F64)(*split)[0])


def test_layer_norm_of_each_head() -> None:
    # ViT-22B, timm's Attention(qk_norm=True) with its biases
    norm = scrambled(normkit.QKNorm(D, kind="layer", bias=True, dtype=F64))
    q, k = heads(), heads()
    got_q, got_k = norm(q, k)
    torch.testing.assert_close(got_q, F.layer_norm(q, (D,), norm.q_weight, norm.q_bias, 1e-6))
    torch.testing.assert_close(got_k, F.layer_norm(k, (D,), norm.k_weight, norm.k_bias, 1e-6))


def test_projection_with_layer_norm_and_biases() -> None:
    norm = scrambled(
        normkit.QKNorm(D, 2, kind="layer", over="projection", bias=True, zero_centred=True)
    )
    q = heads(2, torch.float32)
    flat = q.transpose(1, 2).flatten(-2)
    want = layer_norm(flat, 2 * D, norm.k_weight, norm.k_bias, 1e-6, zero_centred=True)
    torch.testing.assert_close(norm(q, q)[1].transpose(1, 2).flatten(-2), want)


def test_attention_of_the_first_paper() -> None:
    # CyndxAI/QKNorm: g * normalize(q) @ normalize(k).T, g from log2(L^2 - L)
    q, k, v = heads(), heads(), heads()
    norm = normkit.QKNorm(D, kind="l2", scale=scale_for_length(T), dtype=F64)
    assert {n: p.shape for n, p in norm.named_parameters()} == {"scale": (1,)}
    assert norm.scale.item() == pytest.approx(math.log2(T * T - T))
    logits = norm.scale * F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-1, -2)
    want = logits.softmax(-1) @ v
    got = F.scaled_dot_product_attention(*norm(q, k), v, scale=1.0)
    torch.testing.assert_close(got, want)
    twice = F.scaled_dot_product_attention(*norm(q, k), v)
    assert (twice - want).abs().max() > 0.1  # scaling again flattens the attention


def test_l2_from_root_d_is_a_new_rms_norm() -> None:
    q, k = heads(), heads()
    by_length, by_rms = normkit.QKNorm(D, kind="l2", dtype=F64), normkit.QKNorm(D, eps=0.0)
    a, b = by_length(q, k), by_rms(q, k)
    logits = a[0] @ a[1].transpose(-1, -2)
    torch.testing.assert_close(logits, b[0] @ b[1].transpose(-1, -2) / math.sqrt(D))


@pytest.mark.parametrize("dtype", [F64, torch.bfloat16], ids=str)
def test_a_fixed_scale_is_a_number_that_half_precision_does_not_round(dtype: torch.dtype) -> None:
    norm = normkit.QKNorm(D, kind="l2", learned=False, scale=10.03, dtype=dtype)
    assert not list(norm.parameters())
    assert not list(norm.buffers())
    q = heads(dtype=dtype)
    want = 10.03 * F.normalize(q.double(), dim=-1)
    got = norm(q, q)[0].double()
    torch.testing.assert_close(got, want, rtol=4 * torch.finfo(dtype).eps, atol=0)
    if dtype != F64:
        assert (got / want - 1).mean().abs() < 5e-4  # the scale itself would round to 10
    plain = normkit.QKNorm(D, learned=False)
    assert not list(plain.parameters())
    torch.testing.assert_close(plain(q, q)[1], rms_norm(q, D, eps=1e-6))


def largest_logit(norm: normkit.QKNorm, scale: float) -> float:
    """Over queries and keys that are as large and as parallel as they like."""
    q = torch.cat((heads(), 1e6 * heads(), torch.eye(D, dtype=F64)[:T].expand(B, H, T, D)), 2)
    found = norm(q, torch.cat((q, 1e3 * q), 2))
    return (found[0] @ found[1].transpose(-1, -2)).abs().max().item() * scale


def test_logits_cannot_exceed_their_bound() -> None:
    # The bounds of the page, and that inputs come close to them.
    rms = scrambled(normkit.QKNorm(D, dtype=F64))
    layer = scrambled(normkit.QKNorm(D, kind="layer", dtype=F64))
    l2 = scrambled(normkit.QKNorm(D, kind="l2", dtype=F64))
    for norm in (rms, layer):
        bound = math.sqrt(D) * (norm.q_weight * norm.k_weight).abs().max().item()
        assert 0.5 * bound < largest_logit(norm, 1 / math.sqrt(D)) <= bound * (1 + 1e-12)
    assert 0.99 * l2.scale < largest_logit(l2, 1.0) <= l2.scale * (1 + 1e-12)
    wide = scrambled(normkit.QKNorm(D, H, over="projection", dtype=F64))
    gains = (wide.q_weight * wide.k_weight).abs().max().item()
    assert largest_logit(wide, 1 / math.sqrt(D)) <= H * math.sqrt(D) * gains
    plain = heads() * 1e6
    assert (plain @ plain.transpose(-1, -2)).abs().max() > 1e12  # without a norm there is none


def test_gains_before_rotary_positions_keep_logits_relative() -> None:
    # Rotation keeps lengths, so a norm commutes with it; a gain for each channel does not.
    q, k = (torch.randn(D, dtype=F64).expand(T, D) for _ in range(2))
    norm = scrambled(normkit.QKNorm(D, dtype=F64))

    def logits(start: int, *, first: bool) -> Tensor:
        if first:
            a, b = norm(q, k)
            return rotated(a, start) @ rotated(b, start).T
        a, b = norm(rotated(q, start), rotated(k, start))
        return a @ b.T

    torch.testing.assert_close(logits(7, first=True), logits(0, first=True))
    assert (logits(7, first=False) - logits(0, first=False)).abs().max() > 0.01
    without = normkit.QKNorm(D, learned=False)
    torch.testing.assert_close(without(rotated(q), q)[0], rotated(without(q, q)[0]))


@pytest.mark.parametrize("over", ["head", "projection"])
def test_a_token_alone_equals_the_token_in_its_sequence(over: Any) -> None:
    # What a cache of keys relies on: a key does not change when others follow.
    norm = normkit.QKNorm(D, H if over == "projection" else None, over=over)
    q = heads(dtype=torch.float32)
    whole = norm(q, q)
    for t in range(T):
        alone = norm(q[:, :, t : t + 1], q[:, :, t : t + 1])
        for one, all_tokens in zip(alone, whole, strict=True):
            assert torch.equal(one, all_tokens[:, :, t : t + 1])


def test_rounding_as_in_qwens_code() -> None:
    # transformers' Qwen3RMSNorm: weight * x_hat.to(x.dtype)
    norm = normkit.QKNorm(D, rounding="before_gain", dtype=torch.bfloat16)
    with torch.no_grad():
        norm.q_weight.copy_(1 + 0.3 * torch.randn(D))
    q = torch.randn(64, D).bfloat16()
    wide = q.float()
    x_hat = (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).bfloat16()
    assert (norm(q, q)[0] != norm.q_weight * x_hat).float().mean() < 1e-2
    once = qk_norm(q, q, norm.q_weight)[0]
    assert (once != norm.q_weight * x_hat).float().mean() > 0.1


def test_any_leading_shape_and_other_layouts_over_a_head() -> None:
    norm = scrambled(normkit.QKNorm(D, dtype=F64))
    q, k = heads(), heads(1)
    first = norm(q, k)
    moved = norm(q.transpose(1, 2), k[0, 0, 0])
    assert torch.equal(moved[0].transpose(1, 2), first[0])
    assert torch.equal(moved[1], first[1][0, 0, 0])


@pytest.mark.parametrize("kind", ["rms", "layer", "l2"])
def test_eps_arrives(kind: Any) -> None:
    q = 1e-3 * heads()
    default = normkit.QKNorm(D, kind=kind, dtype=F64)
    assert default.eps == {"rms": 1e-6, "layer": 1e-6, "l2": 1e-12}[kind]
    other = normkit.QKNorm(D, kind=kind, eps=0.5, dtype=F64)
    for found in zip(default(q, q), other(q, q), strict=True):
        assert found[1].abs().max() < 0.1 * found[0].abs().max()


def test_attention_trains_with_it() -> None:
    norms = [normkit.QKNorm(D), normkit.QKNorm(D, kind="l2")]
    for norm, scale in zip(norms, (None, 1.0), strict=True):
        q, k, v = (heads(dtype=torch.float32).requires_grad_() for _ in range(3))
        y = F.scaled_dot_product_attention(*norm(q, k), v, scale=scale, is_causal=True)
        y.square().sum().backward()
        leaves: list[nn.Parameter | Tensor] = [q, k, v, *norm.parameters()]
        for leaf in leaves:
            assert leaf.grad is not None
            assert leaf.grad.isfinite().all()
            assert leaf.grad.abs().sum() > 0


def test_attributes_and_repr() -> None:
    # pytorch#101683: absent parameters are None.
    norm = normkit.QKNorm(64)
    assert norm.q_bias is None
    assert norm.k_bias is None
    assert norm.scale is None
    assert repr(norm) == "QKNorm(64, kind='rms', over='head', eps=1e-06)"
    text = "QKNorm(64, heads=8, kv_heads=2, kind='layer', over='projection', eps=0.1, bias=True)"
    options: dict[str, Any] = {"kind": "layer", "over": "projection", "eps": 0.1, "bias": True}
    assert repr(normkit.QKNorm(64, 8, 2, **options)) == text
    text = "QKNorm(64, kind='l2', over='head', eps=1e-12, learned=False, scale=8.0)"
    assert repr(normkit.QKNorm(64, kind="l2", learned=False)) == text
    assert repr(normkit.QKNorm(64, zero_centred=True)).endswith("eps=1e-06, zero_centred=True)")


def projecting(heads: int = 4, kv_heads: int | None = None) -> normkit.QKNorm:
    """A norm over all heads."""
    return normkit.QKNorm(D, heads, kv_heads, over="projection")


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (  # gpt-neox#1367, Lumina-T2X#112: heads side by side where one head was meant
            lambda: normkit.QKNorm(64)(torch.ones(2, 5, 512), torch.ones(2, 5, 64)),
            ShapeError,
            "QKNorm: the last axis of q must be head_width, 64; q is (2, 5, 512), as 8 heads side "
            "by side would be. Try q.unflatten(-1, (8, 64)).transpose(-3, -2).",
        ),
        (
            lambda: normkit.QKNorm(64)(torch.ones(2, 64), torch.ones(2, 80)),
            ShapeError,
            "QKNorm: the last axis of k must be head_width, 64; k is (2, 80). Try head_width=80.",
        ),
        (
            lambda: normkit.QKNorm(64)(torch.ones(2, 64), torch.ones(())),
            ShapeError,
            "QKNorm: the last axis of k must be head_width, 64; k is ().",
        ),
        (
            lambda: projecting()(torch.ones(2, 5, 4, D), torch.ones(2, 4, 5, D)),
            ShapeError,
            "QKNorm: q must be (*, heads, T, head_width) with 4 heads; it is (2, 5, 4, 8). "
            "Try q.transpose(-3, -2).",
        ),
        (
            lambda: projecting()(torch.ones(2, 4, 5, D), torch.ones(2, 2, 5, D)),
            ShapeError,
            "QKNorm: k must be (*, heads, T, head_width) with 4 heads; it is (2, 2, 5, 8). "
            "Try kv_heads=2.",
        ),
        (
            lambda: projecting()(torch.ones(5, D), torch.ones(5, D)),
            ShapeError,
            "QKNorm: q must be (*, heads, T, head_width) with 4 heads; it is (5, 8).",
        ),
        (
            lambda: normkit.QKNorm(D)(torch.ones(2, D).long(), torch.ones(2, D)),
            DtypeError,
            "QKNorm: x must be a floating-point tensor; x is torch.int64. Try x.float().",
        ),
        (
            lambda: normkit.QKNorm(D, over="projection"),
            OptionError,
            "QKNorm: over='projection' needs the number of heads; heads is None. Try heads=8.",
        ),
        (
            lambda: normkit.QKNorm(D, 4),
            OptionError,
            "QKNorm: heads and kv_heads are for over='projection'; over is 'head', where all "
            "heads share one gain.",
        ),
        (
            lambda: normkit.QKNorm(D, 0, over="projection"),
            OptionError,
            "QKNorm: heads must be an integer of at least 1; it is 0.",
        ),
        (
            lambda: normkit.QKNorm(D, 4, kind="l2", over="projection"),
            OptionError,
            "QKNorm: kind 'l2' is taken over each head; over is 'projection'. Try over='head'.",
        ),
        (
            lambda: normkit.QKNorm(D, kind="l2", zero_centred=True),
            OptionError,
            "QKNorm: zero_centred is for a gain, which kind 'l2' does not have; it is True.",
        ),
        (
            lambda: normkit.QKNorm(D, kind="layer", rounding="before_gain"),
            OptionError,
            "QKNorm: rounding is for kind 'rms'; kind is 'layer'.",
        ),
        (
            lambda: normkit.QKNorm(D, scale=8.0),
            OptionError,
            "QKNorm: scale is for kind 'l2', beside the others attention keeps its 1 / sqrt(d); "
            "kind is 'rms'.",
        ),
        (
            lambda: normkit.QKNorm(D, kind="l2", bias=True),
            OptionError,
            "QKNorm: a bias needs kind 'rms' or 'layer', and learned=True; kind is 'l2', "
            "learned is True.",
        ),
        (
            lambda: normkit.QKNorm(D, kind="cosine"),  # type: ignore[arg-type]
            OptionError,
            "QKNorm: kind must be 'rms', 'layer' or 'l2'; kind is 'cosine'.",
        ),
        (
            lambda: qk_norm(torch.ones(2, 512), torch.ones(2, 64), torch.ones(64)),
            ShapeError,
            "qk_norm: the last axis of q must be head_width, 64; q is (2, 512), as 8 heads side "
            "by side would be. Try q.unflatten(-1, (8, 64)).transpose(-3, -2).",
        ),
        (
            lambda: qk_norm(heads(), heads(), torch.ones(D), over="projection"),
            ShapeError,
            "qk_norm: q_weight must have heads * head_width numbers, (32,); it is (8,) and q is "
            "(2, 4, 5, 8). q must be (*, heads, T, head_width).",
        ),
        (
            lambda: qk_norm(torch.ones(2, 8), heads(), over="projection"),
            ShapeError,
            "qk_norm: over='projection' needs q as (*, heads, T, head_width); it is (2, 8).",
        ),
        (
            lambda: qk_norm(heads(), heads(), torch.ones(D), kind="l2"),
            OptionError,
            "qk_norm: kind 'l2' has no weight and no bias; one was given. "
            "Its learned number is scale.",
        ),
        (
            lambda: scale_for_length(1),
            OptionError,
            "scale_for_length: length must be an integer of at least 2; it is 1.",
        ),
    ],
)
def test_wrong_input_gets_a_sentence(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        call()
