"""The layers that the shared contract is run on, each with what the contract needs to know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

import normkit


@dataclass(frozen=True, kw_only=True)
class Case:
    """One layer with one choice of options.

    Attributes:
        name: id of the case.
        build: makes it; keyword arguments go to the constructor (device, dtype).
        shape: of an input.
        op: the custom op that it must run as when compiled; None where it computes nothing.
        coupled: a position's output depends on other samples.
        twin: torch's layer that means the same, or None.
        training: mode that the contract runs it in.
        masked: it takes ``valid``.
    """

    name: str
    build: Callable[..., nn.Module]
    shape: tuple[int, ...]
    op: str | None
    coupled: bool = False
    twin: Callable[..., nn.Module] | None = None
    training: bool = True
    masked: bool = False

    def layer(self, dtype: torch.dtype = torch.float64, **kwargs: Any) -> nn.Module:
        """A layer with random parameters and statistics."""
        layer = self.build(dtype=dtype, **kwargs)
        scramble(layer)
        return layer.train(self.training)

    def input(self, dtype: torch.dtype = torch.float64) -> Tensor:
        """A random input."""
        return torch.randn(self.shape, dtype=torch.float64).to(dtype)

    def function(self, layer: nn.Module) -> Callable[[Tensor], Tensor]:
        """The layer as a function of x alone: masked ones get a fixed mask."""
        if not self.masked:
            return layer
        valid = torch.arange(self.shape[1]) < torch.tensor([[self.shape[1]], [1], [2]])
        return lambda x: layer(x, valid)


def scramble(layer: nn.Module) -> None:
    """Give parameters and running statistics values that no default hides behind."""
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(1.0 + 0.3 * torch.randn(parameter.shape))
        if getattr(layer, "running_mean", None) is not None:
            layer.running_mean.normal_()
            layer.running_var.uniform_(0.5, 2.0)


def _case(name: str, layer: Any, *args: Any, **options: Any) -> Callable[..., nn.Module]:
    def build(**kwargs: Any) -> nn.Module:
        made: nn.Module = layer(*args, **options, **kwargs)
        return made

    build.__name__ = name
    return build


def _token(name: str, layer: str, *args: Any, twin: bool = False, **options: Any) -> Case:
    """A norm over the last axes of x (2, 3, 2, 4)."""
    return Case(
        name=name,
        build=_case(name, getattr(normkit, layer), *args, **options),
        shape=(2, 3, 2, 4),
        op={"LayerNorm": "layer_norm", "RMSNorm": "rms_norm"}[layer],
        twin=_case(name, getattr(nn, layer), *args, **options) if twin else None,
    )


def _batch(name: str, layer: str, shape: tuple[int, ...], **rest: Any) -> Case:
    """A norm over the batch; 3 channels."""
    training = rest.pop("training", True)
    masked = layer == "MaskedBatchNorm"
    return Case(
        name=name,
        build=_case(name, getattr(normkit, layer), 3, **rest),
        shape=shape,
        op="batch_norm" if training else "batch_norm_given",
        coupled=training,
        twin=None if masked else _case(name, getattr(nn, layer), 3, **rest),
        training=training,
        masked=masked,
    )


CASES: tuple[Case, ...] = (
    _token("layer_norm", "LayerNorm", 4, twin=True),
    _token("layer_norm_two_axes", "LayerNorm", (2, 4), twin=True),
    _token("layer_norm_no_bias", "LayerNorm", 4, bias=False, twin=True),
    _token("layer_norm_plain", "LayerNorm", 4, elementwise_affine=False, twin=True),
    _token("layer_norm_outside", "LayerNorm", 4, eps=0.1, eps_place="outside"),
    _token("layer_norm_clamp", "LayerNorm", 4, eps=0.8, eps_place="clamp"),
    _token("layer_norm_zero_centred", "LayerNorm", 4, zero_centred=True),
    _token("rms_norm", "RMSNorm", 4, twin=True),
    _token("rms_norm_two_axes", "RMSNorm", (2, 4), eps=1e-6, twin=True),
    _token("rms_norm_plain", "RMSNorm", 4, elementwise_affine=False, twin=True),
    _token("rms_norm_outside", "RMSNorm", 4, eps=0.1, eps_place="outside", bias=True),
    _token("rms_norm_clamp", "RMSNorm", 4, eps=0.8, eps_place="clamp"),
    _token("rms_norm_zero_centred", "RMSNorm", 4, eps=1e-6, zero_centred=True),
    _token("rms_norm_fraction", "RMSNorm", 4, eps=1e-6, fraction=0.5),
    _token("rms_norm_before_gain", "RMSNorm", 4, eps=1e-6, rounding="before_gain"),
    _batch("batch_norm", "BatchNorm1d", (5, 3)),
    _batch("batch_norm_sequence", "BatchNorm1d", (2, 3, 4), track_running_stats=False),
    _batch("batch_norm_eval", "BatchNorm1d", (5, 3), training=False),
    _batch("batch_norm_image", "BatchNorm2d", (2, 3, 4, 2), affine=False),
    _batch("batch_norm_volume", "BatchNorm3d", (2, 3, 2, 2, 2), track_running_stats=False),
    _batch("masked_batch_norm", "MaskedBatchNorm", (3, 4, 3), track_running_stats=False),
    _batch("masked_batch_norm_running", "MaskedBatchNorm", (3, 4, 3)),
    _batch("masked_batch_norm_eval", "MaskedBatchNorm", (3, 4, 3), training=False),
    Case(
        name="no_norm",
        build=_case("no_norm", lambda **kwargs: normkit.NoNorm(4, **kwargs)),
        shape=(2, 3, 4),
        op=None,
        twin=lambda **kwargs: nn.Identity(),
    ),
)

TOKEN_CASES = tuple(c for c in CASES if not c.coupled and c.op in ("layer_norm", "rms_norm"))


def stateless(case: Case) -> bool:
    """Whether functional transforms may run it: nothing has to be written."""
    return not (case.coupled and getattr(case.build(), "running_mean", None) is not None)


STATELESS_CASES = tuple(c for c in CASES if stateless(c))
