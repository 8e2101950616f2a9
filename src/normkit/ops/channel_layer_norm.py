"""channel_layer_norm: LayerNorm over the channels at each pixel, in any memory format."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from normkit.ops.formula import Formula, Gradients
from normkit.ops.layer_norm import LayerNormFormula
from normkit.ops.registration import register
from normkit.ops.rows import memory_format
from normkit.spec.norm import EpsPlace


@dataclass(frozen=True)
class ChannelLayerNormFormula(Formula):
    """LayerNorm along ``channel_axis``; y has the dtype and memory format of x.

    Its rows are those of layer_norm after the channels have moved to the end, bit for bit. With
    channels_last, they are there in memory already.
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

    def _pixels(self) -> LayerNormFormula:
        return LayerNormFormula(1, self.eps, self.eps_place, self.zero_centred)

    def _last(self, x: Tensor) -> Tensor:
        return x.movedim(self.channel_axis, -1)

    def _back(self, y: Tensor, layout: torch.memory_format) -> Tensor:
        return y.movedim(-1, self.channel_axis).contiguous(memory_format=layout)


channel_layer_norm = register("channel_layer_norm", ChannelLayerNormFormula)
