"""batch_norm: statistics of the batch, or running ones; over real positions only where masked."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from normkit import reference
from normkit.ops.formula import Formula, Gradients
from normkit.ops.precision import Rows, compute_dtype, in_range
from normkit.ops.registration import register
from normkit.ops.rows import channel_rows, from_channel_rows, memory_format, position_rows


@dataclass(frozen=True)
class ChannelFormula(Formula):
    """What batch and given statistics share: channels as rows, layout, shape of parameters."""

    channel_axis: int
    eps: float

    def parameter_shape(self, x: Tensor) -> torch.Size:
        """(C,)."""
        return torch.Size([x.shape[self.channel_axis]])

    def _rows(self, x: Tensor) -> Tensor:
        return channel_rows(x, self.channel_axis)

    def _shaped(self, y_CR: Tensor, x: Tensor) -> Tensor:
        return from_channel_rows(y_CR.to(x.dtype), x, self.channel_axis)

    def _gradient(self, dx_CR: Tensor, x: Tensor) -> Tensor:
        return from_channel_rows(dx_CR, x, self.channel_axis).contiguous()

    def _fake_y(self, x: Tensor) -> Tensor:
        return torch.empty_like(x, memory_format=memory_format(x))


@dataclass(frozen=True)
class BatchNormFormula(ChannelFormula):
    """BatchNorm with the statistics of this batch; the extra tensor is the mask."""

    def forward(
        self, x: Tensor, weight: Tensor | None, bias: Tensor | None, *extras: Tensor | None
    ) -> tuple[Tensor, ...]:
        """(y, mean, var with 1/n, n); mean and var in the compute dtype."""
        rows, valid = self._real(x, *extras)
        y, mean, var, n = reference.batch_norm(
            rows.x_MN, rows.like(weight), rows.like(bias), eps=rows.eps, valid_R=valid
        )
        return self._shaped(y, x), *rows.statistics(mean, var), n

    def backward(
        self, dy: Tensor, x: Tensor, weight: Tensor | None, *extras: Tensor | None
    ) -> Gradients:
        """(dx, dweight, dbias)."""
        rows, valid = self._real(x, *extras)
        dx, dweight, dbias = reference.batch_norm_backward(
            self._rows(dy).to(rows.x_MN.dtype),
            rows.x_MN,
            rows.like(weight),
            eps=rows.eps,
            valid_R=valid,
        )
        return self._gradient(rows.gradient(dx), x), dweight, dbias

    def fake(self, x: Tensor, weight: Tensor | None) -> tuple[Tensor, ...]:
        """(y, mean, var, n)."""
        shape, dtype = self.parameter_shape(x), compute_dtype(x)
        mean, var = x.new_empty(shape, dtype=dtype), x.new_empty(shape, dtype=dtype)
        return self._fake_y(x), mean, var, x.new_empty((), dtype=torch.int64)

    def _real(self, x: Tensor, valid: Tensor | None) -> tuple[Rows, Tensor | None]:
        """Rows that hold 0 where a position is not real, and the mask along them."""
        rows, mask = self._rows(x), position_rows(valid)
        rows = rows if mask is None else torch.where(mask, rows, 0)
        return in_range(rows, self.eps), mask


@dataclass(frozen=True)
class BatchNormGivenFormula(ChannelFormula):
    """BatchNorm with statistics that are given; the extra tensors are mask, mean and variance."""

    def forward(
        self, x: Tensor, weight: Tensor | None, bias: Tensor | None, *extras: Tensor | None
    ) -> tuple[Tensor, ...]:
        """(y,)."""
        rows, mean, var, valid = self._given(x, *extras)
        y = reference.batch_norm_given(
            rows.x_MN,
            mean,
            var,
            rows.like(weight),
            rows.like(bias),
            eps=self.eps,
            valid_R=valid,
        )
        return (self._shaped(y, x),)

    def backward(
        self, dy: Tensor, x: Tensor, weight: Tensor | None, *extras: Tensor | None
    ) -> Gradients:
        """(dx, dweight, dbias); the statistics get no gradient."""
        rows, mean, var, valid = self._given(x, *extras)
        dx, dweight, dbias = reference.batch_norm_given_backward(
            self._rows(dy).to(rows.x_MN.dtype),
            rows.x_MN,
            mean,
            var,
            rows.like(weight),
            eps=self.eps,
            valid_R=valid,
        )
        return self._gradient(dx, x), dweight, dbias

    def fake(self, x: Tensor, weight: Tensor | None) -> tuple[Tensor, ...]:
        """(y,)."""
        return (self._fake_y(x),)

    def _given(
        self, x: Tensor, valid: Tensor | None, mean: Tensor | None, var: Tensor | None
    ) -> tuple[Rows, Tensor, Tensor, Tensor | None]:
        """Rows, mean and variance in the compute dtype, the mask along rows."""
        assert mean is not None  # the op's schema lets extras be absent; these never are
        assert var is not None
        dtype = compute_dtype(x)
        rows = Rows(self._rows(x).to(dtype), self.eps)
        return rows, mean.to(dtype), var.to(dtype), position_rows(valid)


batch_norm = register("batch_norm", BatchNormFormula, extras=("valid",), outputs=4)
batch_norm_given = register(
    "batch_norm_given", BatchNormGivenFormula, extras=("valid", "mean", "var")
)
