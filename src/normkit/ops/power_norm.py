"""power_norm: group scaling of a token, then a running root mean square for each channel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from normkit import reference
from normkit.ops.formula import Formula, Gradients
from normkit.ops.power_passes import PowerPass, passes_of
from normkit.ops.precision import Rows, compute_dtype, in_range
from normkit.ops.registration import register
from normkit.ops.rows import channel_rows, from_channel_rows, memory_format, position_rows
from normkit.reference.standardize import standardize, standardize_backward


@dataclass(frozen=True)
class PowerFormula(Formula):
    """What training and evaluation share: the group scaling, channels as rows, the layout.

    ``groups``: contiguous groups of channels that are divided by their root mean square at each
    position first; None leaves that out.
    """

    channel_axis: int
    eps: float
    groups: int | None

    def _channels(self, x: Tensor, mask: Tensor | None) -> Rows:
        """x after the group scaling, channels as rows, 0 at positions that are not real."""
        x = self._real(x, mask)
        if self.groups is None:
            return in_range(channel_rows(x, self.channel_axis), self.eps)
        rows = self._group_rows(x)
        scaled = standardize(rows.x_MN, center=False, eps=rows.eps)
        return Rows(channel_rows(scaled.reshape(self._last(x).shape), -1), self.eps)

    def _gradient(self, dx_CR: Tensor, x: Tensor, mask: Tensor | None) -> Tensor:
        """Gradient of x from that of :meth:`_channels`."""
        if self.groups is None:
            rows = in_range(channel_rows(self._real(x, mask), self.channel_axis), self.eps)
            dx = from_channel_rows(rows.gradient(dx_CR), x, self.channel_axis)
            return self._real(dx, mask).contiguous()
        rows = self._group_rows(self._real(x, mask))
        g_MN = from_channel_rows(dx_CR, self._last(x), -1).reshape(rows.x_MN.shape)
        dx, _ = standardize_backward(g_MN, rows.x_MN, center=False, eps=rows.eps)
        dx = rows.gradient(dx).reshape(self._last(x).shape).movedim(-1, self.channel_axis)
        return self._real(dx, mask).contiguous()

    def _group_rows(self, x: Tensor) -> Rows:
        """One row for each group of each position."""
        last = self._last(x)
        return in_range(last.reshape(-1, last.shape[-1] // (self.groups or 1)), self.eps)

    def _last(self, x: Tensor) -> Tensor:
        return x.movedim(self.channel_axis, -1)

    def _real(self, x: Tensor, mask: Tensor | None) -> Tensor:
        return x if mask is None else torch.where(mask.unsqueeze(self.channel_axis), x, 0)

    def _shaped(self, y_CR: Tensor, x: Tensor, mask: Tensor | None) -> Tensor:
        """y in the shape, dtype and memory format of x, 0 at positions that are not real."""
        valid_R = position_rows(mask)
        y_CR = y_CR if valid_R is None else torch.where(valid_R, y_CR, 0)
        return from_channel_rows(y_CR.to(x.dtype), x, self.channel_axis)

    def _upstream(self, dy: Tensor, mask: Tensor | None, dtype: torch.dtype) -> Tensor:
        return channel_rows(self._real(dy, mask), self.channel_axis).to(dtype)

    def _fake_y(self, x: Tensor) -> Tensor:
        return torch.empty_like(x, memory_format=memory_format(x))


@dataclass(frozen=True)
class PowerNormFormula(PowerFormula):
    """PowerNorm in training.

    The extra tensors are the running square and product, how many passes came before, the handle
    of the layer's :class:`PowerPasses`, and the mask. After y it returns the mean square of the
    batch, how many positions are behind it (0 in a recomputation: then nothing is to move), and
    the square, product and step that it used; the backward pass gets these three in place of what
    came in.
    """

    extras: ClassVar[tuple[str, ...]] = ("square", "product", "step", "handle?", "valid?")
    outputs: ClassVar[int] = 6

    backward_momentum: float
    warmup: int

    def saved(
        self, tensors: Sequence[Tensor | None], results: Sequence[Tensor]
    ) -> Sequence[Tensor | None]:
        """The inputs, with the statistics that were used for those that were offered."""
        return (*tensors[:3], *results[3:], *tensors[6:])

    def forward(
        self,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        *offered: Any,
    ) -> tuple[Tensor, ...]:
        """(y, mean square, positions, square, product, step)."""
        square, product, step, handle, mask = offered
        rows, n = self._channels(x, mask), _positions(x, self.channel_axis, mask)
        batch = reference.power_square(rows.x_MN, _divisible(n, rows)).squeeze(-1)
        _, batch = rows.statistics(batch, batch)
        passes, dtype = passes_of(handle), batch.dtype
        now = PowerPass(square.to(dtype, copy=True), product.to(dtype, copy=True), step.clone())
        settled, new = (now, True) if passes is None else passes.settled(batch, now)
        psi = self._psi(rows, settled.square, settled.step, n)
        y = reference.power_norm(rows.x_MN, psi, rows.like(weight), rows.like(bias))
        n = n if new else torch.zeros_like(n)
        return self._shaped(y, x, mask), batch, n, *(t.clone() for t in settled)

    def backward(
        self,
        dy: Tensor,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        *used: Any,
    ) -> Gradients:
        """(dx, dweight, dbias); moves the running product of the layer behind the handle."""
        square, product, step, handle, mask = used
        rows, n = self._channels(x, mask), _positions(x, self.channel_axis, mask)
        dx, dweight, dbias, gamma, found = reference.power_norm_backward(
            self._upstream(dy, mask, rows.x_MN.dtype),
            rows.x_MN,
            self._psi(rows, square, step, n),
            rows.like(weight),
            product_C1=product[:, None],
            n=_divisible(n, rows),
            own=step < self.warmup,
        )
        passes = passes_of(handle)
        if passes is not None:
            passes.move(step, gamma.detach(), found.detach(), self.backward_momentum)
        return self._gradient(dx, x, mask), dweight, dbias

    def fake(self, x: Tensor, *rest: Tensor | None) -> tuple[Tensor, ...]:
        """(y, mean square, positions, square, product, step)."""
        channels, dtype = x.shape[self.channel_axis], compute_dtype(x)
        batch, square, product = (x.new_empty(channels, dtype=dtype) for _ in range(3))
        n, step = (x.new_empty((), dtype=torch.int64) for _ in range(2))
        return self._fake_y(x), batch, n, square, product, step

    def _psi(self, rows: Rows, square_C: Tensor, step: Tensor, n: Tensor) -> Tensor:
        """What x is divided by, (C, 1): of this batch in the first passes."""
        return reference.power_divisor(
            rows.x_MN,
            _given(rows, square_C, self.eps),
            n=_divisible(n, rows),
            own=step < self.warmup,
            eps=rows.eps,
        )


@dataclass(frozen=True)
class PowerNormGivenFormula(PowerFormula):
    """PowerNorm in evaluation; the extra tensors are the running mean square and the mask."""

    extras: ClassVar[tuple[str, ...]] = ("square", "valid?")

    def forward(
        self,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        square: Tensor,
        mask: Tensor | None,
    ) -> tuple[Tensor, ...]:
        """(y,)."""
        rows = self._channels(x, mask)
        psi = _given(rows, square, self.eps)
        y = reference.power_norm(rows.x_MN, psi, rows.like(weight), rows.like(bias))
        return (self._shaped(y, x, mask),)

    def backward(
        self,
        dy: Tensor,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        square: Tensor,
        mask: Tensor | None,
    ) -> Gradients:
        """(dx, dweight, dbias)."""
        rows = self._channels(x, mask)
        zero = torch.zeros_like(rows.x_MN[:, :1])
        dx, dweight, dbias, *_ = reference.power_norm_backward(
            self._upstream(dy, mask, rows.x_MN.dtype),
            rows.x_MN,
            _given(rows, square, self.eps),
            rows.like(weight),
            product_C1=zero,
            n=zero.new_ones(()),
            own=torch.zeros_like(zero, dtype=torch.bool),
        )
        return self._gradient(dx, x, mask), dweight, dbias

    def fake(self, x: Tensor, *rest: Tensor | None) -> tuple[Tensor, ...]:
        """(y,)."""
        return (self._fake_y(x),)


def _positions(x: Tensor, channel_axis: int, mask: Tensor | None) -> Tensor:
    """How many positions the statistics see, 0-d int64."""
    if mask is not None:
        return mask.sum()
    count = x.numel() // max(1, x.shape[channel_axis])
    return torch.tensor(count, device=x.device)


def _divisible(n: Tensor, rows: Rows) -> Tensor:
    """At least 1, in the dtype of the rows."""
    return n.clamp(min=1).to(rows.x_MN.dtype)


def _given(rows: Rows, square_C: Tensor, eps: float) -> Tensor:
    """psi_C1 from a running mean square, for rows that may have been scaled."""
    psi = (square_C.to(rows.x_MN.dtype) + eps).sqrt()[:, None]
    return psi if rows.scale_M1 is None else psi * rows.scale_M1


power_norm = register("power_norm", PowerNormFormula)
power_norm_given = register("power_norm_given", PowerNormGivenFormula)
