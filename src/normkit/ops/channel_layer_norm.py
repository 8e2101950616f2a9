"""channel_layer_norm: LayerNorm over the channels at each pixel, in any memory format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from normkit.ops.formula import Formula, Gradients
from normkit.ops.kernel import wider
from normkit.ops.layer_norm import LayerNormFormula
from normkit.ops.registration import register
from normkit.ops.row_kernel import bits, flags, only_needed
from normkit.ops.rows import memory_format
from normkit.spec.norm import EpsPlace


@dataclass(frozen=True)
class ChannelLayerNormFormula(Formula):
    """LayerNorm along ``channel_axis``; y has the dtype and memory format of x.

    Its rows are those of layer_norm after the channels have moved to the end. With channels_last,
    they are there in memory already.
    """

    channel_axis: int
    eps: float
    eps_place: EpsPlace
    zero_centred: bool

    def forward(self, x: Tensor, *rest: Tensor | None) -> tuple[Tensor, ...]:
        """(y,)."""
        (y,) = self._pixels().forward(self._last(x), *rest)
        return (self._back(y, memory_format(x)),)

    def backward(self, dy: Tensor, x: Tensor, *rest: Tensor | None) -> Gradients:
        """(dx, dweight, dbias)."""
        dx, *others = self._pixels().backward(self._last(dy), self._last(x), *rest)
        assert dx is not None  # x is never absent
        return self._back(dx, torch.contiguous_format), *others

    def fake(self, x: Tensor, *rest: Tensor | None) -> tuple[Tensor, ...]:
        """(y,)."""
        return (torch.empty_like(x, memory_format=memory_format(x)),)

    def cpu_refuses(self, *tensors: Tensor | None) -> str | None:
        """Where a parameter is wider than x."""
        return wider(tensors)

    def cpu_forward(
        self, kernels: Any, x: Tensor, *parameters: Tensor | None
    ) -> tuple[Tensor, ...]:
        """(y,)."""
        if _positions_together(x, self.channel_axis):
            options = (self.channel_axis, self.eps, self._flags())
            return (kernels.channel_layer_norm(x, *parameters, *options),)
        (y,) = self._pixels().cpu_forward(kernels, self._last(x), *parameters)
        return (self._back(y, memory_format(x)),)

    def cpu_backward(
        self,
        kernels: Any,
        needed: Sequence[bool],
        dy: Tensor,
        x: Tensor,
        *parameters: Tensor | None,
    ) -> Gradients:
        """(dx, dweight, dbias)."""
        if _positions_together(x, self.channel_axis):
            options = (self.channel_axis, self.eps, self._flags(), bits(needed))
            found = kernels.channel_layer_norm_backward(dy, x, *parameters, *options)
            return only_needed(found, needed)
        rows = (self._last(t) for t in (dy, x))
        dx, *others = self._pixels().cpu_backward(kernels, needed, *rows, *parameters)
        if dx is not None:
            dx = self._back(dx, torch.contiguous_format)
        return dx, *others

    def _flags(self) -> int:
        return flags(self.eps_place, self.zero_centred)

    def _pixels(self) -> LayerNormFormula:
        return LayerNormFormula(1, self.eps, self.eps_place, self.zero_centred)

    def _last(self, x: Tensor) -> Tensor:
        return x.movedim(self.channel_axis, -1)

    def _back(self, y: Tensor, layout: torch.memory_format) -> Tensor:
        return y.movedim(-1, self.channel_axis).contiguous(memory_format=layout)


def _positions_together(x: Tensor, channel_axis: int) -> bool:
    """Whether the kernel for positions that lie side by side is to be used.

    The layout alone decides, so that a position has the same bits whatever stands beside it.
    """
    return channel_axis < x.dim() - 1 and x.stride(channel_axis) != 1


channel_layer_norm = register("channel_layer_norm", ChannelLayerNormFormula)
