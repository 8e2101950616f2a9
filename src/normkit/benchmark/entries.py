"""The table of ops that are timed. A new op is one entry here and one function in formulas.py."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from normkit import functional, layers
from normkit.benchmark import formulas
from normkit.benchmark.entry import BenchOp, Shape

TOKENS: Shape = (4096, 1024)
SAMPLES: Shape = (4, 1024, 1024)
IMAGES: Shape = (8, 96, 56, 56)
GROUPS = 32
ANY = (1, 2, 3, 4)


def _tokens(shape: Shape) -> dict[str, Shape]:
    return {"x": shape, "weight": shape[-1:]}


def _tokens_bias(shape: Shape) -> dict[str, Shape]:
    return {"x": shape, "weight": shape[-1:], "bias": shape[-1:]}


def _channels(shape: Shape) -> dict[str, Shape]:
    return {"x": shape, "weight": shape[1:2], "bias": shape[1:2]}


def _added(shape: Shape) -> dict[str, Shape]:
    return {"x": shape, "residual": shape, "weight": shape[-1:]}


def _added_bias(shape: Shape) -> dict[str, Shape]:
    return {**_added(shape), "bias": shape[-1:]}


def _gated(shape: Shape) -> dict[str, Shape]:
    return {"x": shape, "gate": shape, "weight": shape[-1:]}


def _conditioned(shape: Shape) -> dict[str, Shape]:
    """One scale and one shift for each sample; tokens without a batch axis are one sample."""
    inner = (1,) * (len(shape) - 2)
    sample = (shape[0] if len(shape) > 2 else 1, *inner, shape[-1])
    return {"x": shape, "scale": sample, "shift": sample}


def _linear(shape: Shape) -> dict[str, Shape]:
    """A linear layer as wide as x, so that y has the shape of x."""
    return {**_tokens(shape), "linear": (shape[-1], shape[-1])}


def _masked(shape: Shape) -> dict[str, Shape]:
    return {**_tokens_bias(shape), "valid": shape[:-1]}


def _torch_channel_layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """What ConvNeXt's code does: channels to the end, LayerNorm, back."""
    tokens = x.permute(0, 2, 3, 1)
    return F.layer_norm(tokens, weight.shape, weight, bias, 1e-6).permute(0, 3, 1, 2)


def _torch_adaptive_layer_norm(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """What DiT's code does."""
    return F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + scale) + shift


def _torch_adaptive_rms_norm(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    return F.rms_norm(x, x.shape[-1:], eps=1e-6) * (1 + scale) + shift


def _torch_batch_norm(x: Tensor, weight: Tensor, bias: Tensor, valid: Tensor) -> Tensor:
    """Pick the real tokens, BatchNorm, put them back."""
    real = F.batch_norm(x[valid], None, None, weight, bias, training=True)
    return torch.zeros_like(x).masked_scatter(valid.unsqueeze(-1), real)


def _ours_batch_norm(x: Tensor, weight: Tensor, bias: Tensor, valid: Tensor) -> Tensor:
    return functional.batch_norm(
        x, weight=weight, bias=bias, training=True, channel_axis=-1, valid=valid
    ).y


def _ours_add_layer_norm(
    x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor]:
    return functional.add_layer_norm(x, residual, weight.shape, weight, bias)


def _torch_add_layer_norm(
    x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor]:
    h = x + residual
    return F.layer_norm(h, weight.shape, weight, bias), h


def _ours_add_rms_norm(x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    return functional.add_rms_norm(x, residual, weight.shape, weight, 1e-6)


def _torch_add_rms_norm(x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    h = x + residual
    return F.rms_norm(h, weight.shape, weight, 1e-6), h


def _ours_norm_linear(x: Tensor, weight: Tensor, linear: Tensor) -> Tensor:
    return functional.norm_linear(x, linear, norm="rms_norm", norm_weight=weight, eps=1e-6)


def _torch_norm_linear(x: Tensor, weight: Tensor, linear: Tensor) -> Tensor:
    return F.linear(F.rms_norm(x, weight.shape, weight, 1e-6), linear)


ENTRIES = (
    BenchOp(
        name="layer_norm",
        shape=TOKENS,
        axes=ANY,
        sizes=_tokens_bias,
        ours=lambda x, weight, bias: functional.layer_norm(x, weight.shape, weight, bias),
        torch=lambda x, weight, bias: F.layer_norm(x, weight.shape, weight, bias),
        formula=formulas.layer_norm,
        modules=(layers.LayerNorm, nn.LayerNorm),
    ),
    BenchOp(
        name="rms_norm",
        shape=TOKENS,
        axes=ANY,
        sizes=_tokens,
        ours=lambda x, weight: functional.rms_norm(x, weight.shape, weight, 1e-6),
        torch=lambda x, weight: F.rms_norm(x, weight.shape, weight, 1e-6),
        formula=formulas.rms_norm,
        modules=(lambda n: layers.RMSNorm(n, 1e-6), lambda n: nn.RMSNorm(n, 1e-6)),
    ),
    BenchOp(
        name="channel_layer_norm",
        shape=IMAGES,
        axes=(4,),
        sizes=_channels,
        ours=functional.channel_layer_norm,
        torch=_torch_channel_layer_norm,
        formula=formulas.channel_layer_norm,
        rows=(1,),
    ),
    BenchOp(
        name="group_norm",
        shape=IMAGES,
        axes=(4,),
        sizes=_channels,
        ours=lambda x, weight, bias: functional.group_norm(x, GROUPS, weight, bias),
        torch=lambda x, weight, bias: F.group_norm(x, GROUPS, weight, bias),
        formula=formulas.group_norm,
        rows=(1, 2, 3),
    ),
    BenchOp(
        name="gated_rms_norm",
        shape=TOKENS,
        axes=ANY,
        sizes=_gated,
        ours=lambda x, gate, weight: functional.gated_rms_norm(x, gate, weight.shape, weight),
        torch=lambda x, gate, weight: F.rms_norm(x, weight.shape, weight, 1e-6) * F.silu(gate),
        formula=formulas.gated_rms_norm,
        kept=("x", "gate", "weight"),
    ),
    BenchOp(
        name="adaptive_layer_norm",
        shape=SAMPLES,
        axes=ANY[1:],
        sizes=_conditioned,
        ours=lambda x, scale, shift: functional.adaptive_layer_norm(x, x.shape[-1:], scale, shift),
        torch=_torch_adaptive_layer_norm,
        formula=formulas.adaptive_layer_norm,
        kept=("x", "scale"),
    ),
    BenchOp(
        name="adaptive_rms_norm",
        shape=SAMPLES,
        axes=ANY[1:],
        sizes=_conditioned,
        ours=lambda x, scale, shift: functional.adaptive_rms_norm(x, x.shape[-1:], scale, shift),
        torch=_torch_adaptive_rms_norm,
        formula=formulas.adaptive_rms_norm,
        kept=("x", "scale"),
    ),
    BenchOp(
        name="batch_norm",
        shape=SAMPLES,
        axes=(3,),
        sizes=_masked,
        ours=_ours_batch_norm,
        torch=_torch_batch_norm,
        formula=formulas.batch_norm,
        kept=("x", "weight", "valid"),
        rows=(0, 1),
    ),
    BenchOp(
        name="add_layer_norm",
        shape=TOKENS,
        axes=ANY,
        sizes=_added_bias,
        ours=_ours_add_layer_norm,
        torch=_torch_add_layer_norm,
        formula=formulas.add_layer_norm,
        outputs=("y", "h"),
        kept=("h", "weight"),
        shared=("residual",),
    ),
    BenchOp(
        name="add_rms_norm",
        shape=TOKENS,
        axes=ANY,
        sizes=_added,
        ours=_ours_add_rms_norm,
        torch=_torch_add_rms_norm,
        formula=formulas.add_rms_norm,
        outputs=("y", "h"),
        kept=("h", "weight"),
        shared=("residual",),
    ),
    BenchOp(
        name="norm_linear",
        shape=TOKENS,
        axes=ANY,
        sizes=_linear,
        ours=_ours_norm_linear,
        torch=_torch_norm_linear,
        formula=formulas.norm_linear,
        kept=("x", "weight", "linear"),
        compute_bound=True,
    ),
)
OPS: Mapping[str, BenchOp] = {entry.name: entry for entry in ENTRIES}
