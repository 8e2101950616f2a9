"""batch_norm: statistics of the batch, or running ones; over real positions only where masked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from normkit import reference
from normkit.ops.formula import Formula, Gradients
from normkit.ops.kernel import wider
from normkit.ops.precision import Rows, compute_dtype, in_range
from normkit.ops.registration import register
from normkit.ops.row_kernel import bits, only_needed
from normkit.ops.rows import (
    channel_rows,
    from_channel_rows,
    joined,
    memory_format,
    pieces,
    position_rows,
)

_FEW_POSITIONS = 16


@dataclass(frozen=True)
class ChannelFormula(Formula):
    """What batch and given statistics share: channels as rows, and the layout."""

    channel_axis: int
    eps: float

    def _rows(self, x: Tensor) -> Tensor:
        return channel_rows(x, self.channel_axis)

    def _shaped(self, y_CR: Tensor, x: Tensor) -> Tensor:
        return from_channel_rows(y_CR.to(x.dtype), x, self.channel_axis)

    def _gradient(self, dx_CR: Tensor, x: Tensor) -> Tensor:
        return self._shaped(dx_CR, x).contiguous()

    def _fake_y(self, x: Tensor) -> Tensor:
        return torch.empty_like(x, memory_format=memory_format(x))


@dataclass(frozen=True)
class BatchNormFormula(ChannelFormula):
    """BatchNorm with the statistics of this batch; the extra tensor is the mask."""

    extras: ClassVar[tuple[str, ...]] = ("valid?",)
    outputs: ClassVar[int] = 4

    def forward(
        self, x: Tensor, weight: Tensor | None, bias: Tensor | None, mask: Tensor | None
    ) -> tuple[Tensor, ...]:
        """(y, mean, var with 1/n, n); mean and var in the compute dtype."""
        x_CR, valid = self._rows(x), position_rows(mask)
        parts = [self._part(x_CR[p], _of(weight, p), _of(bias, p), valid) for p in pieces(x_CR)]
        y, mean, var, n = zip(*parts, strict=True)
        return self._shaped(joined(y), x), joined(mean), joined(var), n[0]

    def backward(
        self,
        dy: Tensor,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        mask: Tensor | None,
    ) -> Gradients:
        """(dx, dweight, dbias)."""
        dy_CR, x_CR, valid = self._rows(dy), self._rows(x), position_rows(mask)
        parts = [
            self._part_backward(dy_CR[p], x_CR[p], _of(weight, p), valid) for p in pieces(x_CR)
        ]
        dx, dweight, dbias = zip(*parts, strict=True)
        return self._gradient(joined(dx), x), joined(dweight), joined(dbias)

    def cpu_refuses(self, *tensors: Tensor | None) -> str | None:
        """Where a parameter is wider than x."""
        return wider(tensors[:3])

    def cpu_forward(
        self,
        kernels: Any,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        mask: Tensor | None,
    ) -> tuple[Tensor, ...]:
        """(y, mean, var, n)."""
        n = x.new_tensor(x.numel() // max(x.shape[self.channel_axis], 1), dtype=torch.int64)
        if mask is not None:
            n = mask.sum()
        if self._in_samples(x):
            y, mean, var = kernels.group_norm(x, weight, bias, mask, 0, self.eps)
            return y.contiguous(memory_format=memory_format(x)), mean, var, n
        valid = None if mask is None else mask.reshape(1, -1)
        rows_x = self._rows(x)[None]
        y, mean, var = kernels.group_norm(rows_x, weight, bias, valid, 0, self.eps)
        return self._shaped(y[0], x), mean, var, n

    def cpu_backward(
        self,
        kernels: Any,
        needed: Sequence[bool],
        dy: Tensor,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        mask: Tensor | None,
    ) -> Gradients:
        """(dx, dweight, dbias)."""
        options, backward = (0, self.eps, bits(needed[:3])), kernels.group_norm_backward
        if self._in_samples(x):
            return only_needed(backward(dy, x, weight, bias, mask, *options), needed)
        valid = None if mask is None else mask.reshape(1, -1)
        rows_dy, rows_x = (self._rows(t)[None] for t in (dy, x))
        dx, *others = only_needed(backward(rows_dy, rows_x, weight, bias, valid, *options), needed)
        return None if dx is None else self._gradient(dx[0], x), *others

    def _in_samples(self, x: Tensor) -> bool:
        """Whether a channel is read sample by sample, as (B, C, *) has it in memory.

        The shape alone decides, so that memory formats give the same bits.
        """
        return self.channel_axis == 1 and math.prod(x.shape[2:]) >= _FEW_POSITIONS

    def _part(
        self, x_CR: Tensor, weight_C: Tensor | None, bias_C: Tensor | None, valid_R: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(y_CR in the dtype of x, mean_C, var_C, n)."""
        rows = self._real(x_CR, valid_R)
        y, mean, var, n = reference.batch_norm(
            rows.x_MN, rows.like(weight_C), rows.like(bias_C), eps=rows.eps, valid_R=valid_R
        )
        return y.to(x_CR.dtype), *rows.statistics(mean, var), n

    def _part_backward(
        self, dy_CR: Tensor, x_CR: Tensor, weight_C: Tensor | None, valid_R: Tensor | None
    ) -> Gradients:
        """(dx_CR in the dtype of x, dweight_C, dbias_C)."""
        rows = self._real(x_CR, valid_R)
        dx, dweight, dbias = reference.batch_norm_backward(
            dy_CR.to(rows.x_MN.dtype),
            rows.x_MN,
            rows.like(weight_C),
            eps=rows.eps,
            valid_R=valid_R,
        )
        return rows.gradient(dx).to(x_CR.dtype), dweight, dbias

    def fake(self, x: Tensor, *rest: Tensor | None) -> tuple[Tensor, ...]:
        """(y, mean, var, n)."""
        channels, dtype = x.shape[self.channel_axis], compute_dtype(x)
        mean, var = x.new_empty(channels, dtype=dtype), x.new_empty(channels, dtype=dtype)
        return self._fake_y(x), mean, var, x.new_empty((), dtype=torch.int64)

    def _real(self, x_CR: Tensor, valid_R: Tensor | None) -> Rows:
        """Rows that hold 0 where a position is not real."""
        real_CR = x_CR if valid_R is None else torch.where(valid_R, x_CR, 0)
        return in_range(real_CR, self.eps, center=True)


@dataclass(frozen=True)
class BatchNormGivenFormula(ChannelFormula):
    """BatchNorm with statistics that are given; the extra tensors are mean, variance and mask."""

    extras: ClassVar[tuple[str, ...]] = ("mean", "var", "valid?")

    def forward(
        self, x: Tensor, weight: Tensor | None, bias: Tensor | None, *given: Tensor
    ) -> tuple[Tensor, ...]:
        """(y,)."""
        x_CR, mean, var, valid = self._given(x, *given)
        y = [
            reference.batch_norm_given(
                x_CR[p].to(mean.dtype),
                mean[p],
                var[p],
                _wide(weight, p, mean.dtype),
                _wide(bias, p, mean.dtype),
                eps=self.eps,
                valid_R=valid,
            ).to(x.dtype)
            for p in pieces(x_CR)
        ]
        return (self._shaped(joined(y), x),)

    def backward(
        self,
        dy: Tensor,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        *given: Tensor,
    ) -> Gradients:
        """(dx, dweight, dbias); the statistics get no gradient."""
        x_CR, mean, var, valid = self._given(x, *given)
        dy_CR = self._rows(dy)
        parts = [
            reference.batch_norm_given_backward(
                dy_CR[p].to(mean.dtype),
                x_CR[p].to(mean.dtype),
                mean[p],
                var[p],
                _wide(weight, p, mean.dtype),
                eps=self.eps,
                valid_R=valid,
            )
            for p in pieces(x_CR)
        ]
        dx, dweight, dbias = zip(*parts, strict=True)
        dx_CR = joined([part.to(x.dtype) for part in dx])
        return self._gradient(dx_CR, x), joined(dweight), joined(dbias)

    def fake(self, x: Tensor, *rest: Tensor | None) -> tuple[Tensor, ...]:
        """(y,)."""
        return (self._fake_y(x),)

    def _given(
        self, x: Tensor, mean: Tensor, var: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Channels as rows, mean and variance in the compute dtype, the mask along rows."""
        dtype = compute_dtype(x)
        return self._rows(x), mean.to(dtype), var.to(dtype), position_rows(mask)


def _of(per_channel: Tensor | None, part: slice) -> Tensor | None:
    return None if per_channel is None else per_channel[part]


def _wide(per_channel: Tensor | None, part: slice, dtype: torch.dtype) -> Tensor | None:
    return None if per_channel is None else per_channel[part].to(dtype)


batch_norm = register("batch_norm", BatchNormFormula)
batch_norm_given = register("batch_norm_given", BatchNormGivenFormula)
