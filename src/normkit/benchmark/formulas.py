"""Each norm's formula as one would write it in eager torch, from its paper: a peer, and the truth.

Halves are widened to float32, other dtypes compute in themselves; so in float64 these are what
errors are measured against. Every function takes tensors and numbers only and is also valid
TorchScript.
"""

from __future__ import annotations

import torch
from torch import Tensor


def wide(x: Tensor) -> Tensor:
    """A half as float32; any other dtype as it is."""
    if x.dtype == torch.float16 or x.dtype == torch.bfloat16:
        return x.float()
    return x


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Over the last axis, eps 1e-5."""
    h = wide(x)
    h = h - h.mean(-1, keepdim=True)
    h = h * torch.rsqrt(h.square().mean(-1, keepdim=True) + 1e-5)
    return (h * wide(weight) + wide(bias)).to(x.dtype)


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    """Over the last axis, eps 1e-6."""
    h = wide(x)
    h = h * torch.rsqrt(h.square().mean(-1, keepdim=True) + 1e-6)
    return (h * wide(weight)).to(x.dtype)


def add_layer_norm(
    x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor]:
    """LayerNorm of the sum, and the sum."""
    h = x + residual
    return layer_norm(h, weight, bias), h


def add_rms_norm(x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """RMSNorm of the sum, and the sum."""
    h = x + residual
    return rms_norm(h, weight), h


def gated_rms_norm(x: Tensor, gate: Tensor, weight: Tensor) -> Tensor:
    """RMSNorm, then times silu(gate)."""
    h, g = wide(x), wide(gate)
    h = h * torch.rsqrt(h.square().mean(-1, keepdim=True) + 1e-6)
    return (h * wide(weight) * (g * torch.sigmoid(g))).to(x.dtype)


def adaptive_layer_norm(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """LayerNorm with 1 + scale and shift for each sample, eps 1e-6."""
    h = wide(x)
    h = h - h.mean(-1, keepdim=True)
    h = h * torch.rsqrt(h.square().mean(-1, keepdim=True) + 1e-6)
    return (h * (1 + wide(scale)) + wide(shift)).to(x.dtype)


def adaptive_rms_norm(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """RMSNorm with 1 + scale and shift for each sample, eps 1e-6."""
    h = wide(x)
    h = h * torch.rsqrt(h.square().mean(-1, keepdim=True) + 1e-6)
    return (h * (1 + wide(scale)) + wide(shift)).to(x.dtype)


def channel_layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Over the channels (axis 1) at each pixel, eps 1e-6."""
    h = wide(x)
    h = h - h.mean(1, keepdim=True)
    h = h * torch.rsqrt(h.square().mean(1, keepdim=True) + 1e-6)
    return (h * wide(weight).view(1, -1, 1, 1) + wide(bias).view(1, -1, 1, 1)).to(x.dtype)


def group_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Over 32 groups of the channels (axis 1) and all of space, eps 1e-5."""
    h = wide(x).reshape(x.shape[0], 32, -1)
    h = h - h.mean(-1, keepdim=True)
    h = h * torch.rsqrt(h.square().mean(-1, keepdim=True) + 1e-5)
    h = h.reshape(x.shape)
    return (h * wide(weight).view(1, -1, 1, 1) + wide(bias).view(1, -1, 1, 1)).to(x.dtype)


def batch_norm(x: Tensor, weight: Tensor, bias: Tensor, valid: Tensor) -> Tensor:
    """Over all real tokens, for each feature, eps 1e-5; padding gives 0."""
    mask = valid.unsqueeze(-1)
    h = torch.where(mask, wide(x), torch.zeros_like(wide(x)))
    count = valid.sum()
    h = torch.where(mask, h - h.sum((0, 1)) / count, torch.zeros_like(h))
    h = h * torch.rsqrt(h.square().sum((0, 1)) / count + 1e-5)
    y = h * wide(weight) + wide(bias)
    return torch.where(mask, y, torch.zeros_like(y)).to(x.dtype)


def norm_linear(x: Tensor, weight: Tensor, linear: Tensor) -> Tensor:
    """RMSNorm, then a linear layer without a bias."""
    return torch.nn.functional.linear(rms_norm(x, weight), linear)
