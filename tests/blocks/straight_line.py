"""The same models written by hand: straight lines of plain torch, one function per placement."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from normkit.blocks import TransformerConfig

Parameters = Mapping[str, Tensor]


@dataclass(frozen=True)
class Layer:
    """The pieces of one layer as functions of x: branches, and norms by their place."""

    attention: Callable[[Tensor], Tensor]
    ffn: Callable[[Tensor], Tensor]
    norm: Callable[[str, Tensor], Tensor]
    alpha: float


def post(x: Tensor, layer: Layer) -> Tensor:
    """x <- N(x + f(x))."""
    x = layer.norm("around_attention.norm_sum", x + layer.attention(x))
    return layer.norm("around_ffn.norm_sum", x + layer.ffn(x))


def pre(x: Tensor, layer: Layer) -> Tensor:
    """x <- x + f(N(x))."""
    x = x + layer.attention(layer.norm("around_attention.norm_in", x))
    return x + layer.ffn(layer.norm("around_ffn.norm_in", x))


def deepnorm(x: Tensor, layer: Layer) -> Tensor:
    """x <- N(alpha x + f(x))."""
    x = layer.norm("around_attention.norm_sum", layer.alpha * x + layer.attention(x))
    return layer.norm("around_ffn.norm_sum", layer.alpha * x + layer.ffn(x))


def sandwich(x: Tensor, layer: Layer) -> Tensor:
    """x <- x + N2(f(N1(x)))."""
    f = layer.attention(layer.norm("around_attention.norm_in", x))
    x = x + layer.norm("around_attention.norm_out", f)
    f = layer.ffn(layer.norm("around_ffn.norm_in", x))
    return x + layer.norm("around_ffn.norm_out", f)


LAYERS = {"post": post, "pre": pre, "deepnorm": deepnorm, "sandwich": sandwich, "peri": sandwich}
EMBEDDING_NORM = ("peri",)
FINAL_NORM = ("pre", "sandwich", "peri")


def hidden(
    p: Parameters, config: TransformerConfig, tokens: Tensor, valid: Tensor, *, causal: bool
) -> Tensor:
    """Compute what ``Transformer`` returns, from parameters by name."""
    assert isinstance(config.placement, str)
    numbers = torch.tensor([[max(sum(row[: t + 1]) - 1, 0) for t in range(len(row))]
                            for row in valid.tolist()])  # fmt: skip
    x = p["tokens.weight"][tokens] + p["positions.weight"][numbers]
    if config.placement in EMBEDDING_NORM:
        x = norm(p, "embedding_norm", x, valid, config.norm)
    for index in range(config.depth):
        x = LAYERS[config.placement](x, _layer(p, config, valid, f"blocks.{index}.", causal))
    if config.placement in FINAL_NORM:
        x = norm(p, "final_norm", x, valid, config.norm)
    return x


def _layer(
    p: Parameters, config: TransformerConfig, valid: Tensor, prefix: str, causal: bool
) -> Layer:
    def attend(x: Tensor) -> Tensor:
        return attention(p, prefix + "attention.", x, valid, heads=config.heads, causal=causal)

    return Layer(
        attention=attend,
        ffn=lambda x: ffn(p, prefix + "ffn.", x),
        norm=lambda place, x: norm(p, prefix + place, x, valid, config.norm),
        alpha=(2 * config.depth) ** 0.25,
    )


def attention(
    p: Parameters, prefix: str, x: Tensor, valid: Tensor, *, heads: int, causal: bool
) -> Tensor:
    """softmax(Q K^T / sqrt(d)) V, head by head and row by row."""
    B, T, D = x.shape
    d = D // heads
    weight, bias = p[prefix + "qkv.weight"], p[prefix + "qkv.bias"]
    q, k, v = ((x @ weight[i * D : i * D + D].T + bias[i * D : i * D + D]) for i in range(3))
    rows = []
    for b in range(B):
        allowed = torch.tensor(
            [[s == t or (bool(valid[b, s]) and (s < t or not causal)) for s in range(T)]
             for t in range(T)]
        )  # fmt: skip
        outs = []
        for h in range(heads):
            at = slice(h * d, h * d + d)
            scores = q[b, :, at] @ k[b, :, at].T / d**0.5
            outs.append(scores.masked_fill(~allowed, -torch.inf).softmax(-1) @ v[b, :, at])
        rows.append(torch.cat(outs, -1))
    return torch.stack(rows) @ p[prefix + "output.weight"].T + p[prefix + "output.bias"]


def ffn(p: Parameters, prefix: str, x: Tensor) -> Tensor:
    """W2 gelu(W1 x + b1) + b2, with gelu(z) = z Phi(z)."""
    z = x @ p[prefix + "first.weight"].T + p[prefix + "first.bias"]
    z = z * 0.5 * (1 + torch.erf(z / 2**0.5))
    return z @ p[prefix + "second.weight"].T + p[prefix + "second.bias"]


def norm(p: Parameters, place: str, x: Tensor, valid: Tensor, name: str) -> Tensor:
    """Apply the norm's formula, in training, with the parameters that stand at ``place``."""
    if name == "no_norm":
        return x
    weight = p[place + ".norm.weight"]
    if name == "rms_norm":
        return x / (x.square().mean(-1, keepdim=True) + torch.finfo(x.dtype).eps).sqrt() * weight
    bias = p[place + ".norm.bias"]
    if name == "layer_norm":
        centred = x - x.mean(-1, keepdim=True)
        return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight + bias
    rows = x[valid] if name == "masked_batch_norm" else x.flatten(0, 1)
    mean = rows.mean(0)
    y = (x - mean) / ((rows - mean).square().mean(0) + 1e-5).sqrt() * weight + bias
    return y * valid[..., None] if name == "masked_batch_norm" else y
