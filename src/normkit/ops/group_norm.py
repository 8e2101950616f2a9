"""group_norm: groups of channels of one sample; InstanceNorm where a group is one channel."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
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
from normkit.ops.rows import joined, memory_format, pieces, summed_to


@dataclass(frozen=True)
class GroupNormFormula(Formula):
    """GroupNorm of x (B, C, *) over groups of contiguous channels; the extra tensor is the mask.

    A row is one group of one sample: M = B G rows of K = C / G channels and R positions.
    """

    extras: ClassVar[tuple[str, ...]] = ("valid?",)
    outputs: ClassVar[int] = 4

    groups: int
    eps: float

    def forward(
        self, x: Tensor, weight: Tensor | None, bias: Tensor | None, mask: Tensor | None
    ) -> tuple[Tensor, ...]:
        """(y, mean (B, G), var with 1/n (B, G), n (B,): positions of a sample)."""
        parts = [self._part(*t) for t in self._pieces(x, weight, bias, mask)]
        y, mean, var = (joined(t) for t in zip(*parts, strict=True))
        statistics = (t.reshape(x.shape[0], self.groups) for t in (mean, var))
        return _shaped(y, x, memory_format(x)), *statistics, _counts(x, mask)

    def backward(
        self,
        dy: Tensor,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        mask: Tensor | None,
    ) -> Gradients:
        """(dx, dweight, dbias)."""
        parts = zip(
            self._pieces(dy, None, None, None), self._pieces(x, weight, None, mask), strict=True
        )
        found = [self._part_backward(dy_MKR, *t) for (dy_MKR, *_), t in parts]
        dx, dweight, dbias = zip(*found, strict=True)
        B, C = x.shape[:2]
        sums = (summed_to(joined(t).reshape(B, C), torch.Size([C])) for t in (dweight, dbias))
        return _shaped(joined(dx), x, torch.contiguous_format), *sums

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
        y, mean, var = kernels.group_norm(x, weight, bias, mask, self.groups, self.eps)
        return _shaped(y, x, memory_format(x)), mean, var, _counts(x, mask)

    def cpu_backward(self, kernels: Any, needed: Sequence[bool], *args: Any) -> Gradients:
        """(dx, dweight, dbias)."""
        options = (self.groups, self.eps, bits(needed[:3]))
        return only_needed(kernels.group_norm_backward(*args, *options), needed)

    def fake(self, x: Tensor, *rest: Tensor | None) -> tuple[Tensor, ...]:
        """(y, mean, var, n)."""
        shape, dtype = (x.shape[0], self.groups), compute_dtype(x)
        mean, var = x.new_empty(shape, dtype=dtype), x.new_empty(shape, dtype=dtype)
        y = torch.empty_like(x, memory_format=memory_format(x))
        return y, mean, var, x.new_empty(shape[:1], dtype=torch.int64)

    def _part(
        self,
        x_MKR: Tensor,
        weight_MK: Tensor | None,
        bias_MK: Tensor | None,
        valid_MR: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """(y_MKR in the dtype of x, mean_M, var_M)."""
        rows = self._real(x_MKR, valid_MR)
        y, mean, var = reference.group_norm(
            rows.x_MN.reshape(x_MKR.shape),
            _wide(weight_MK, rows),
            _wide(bias_MK, rows),
            eps=rows.eps,
            valid_MR=valid_MR,
        )
        return y.to(x_MKR.dtype), *rows.statistics(mean, var)

    def _part_backward(
        self,
        dy_MKR: Tensor,
        x_MKR: Tensor,
        weight_MK: Tensor | None,
        _: Tensor | None,
        valid_MR: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """(dx_MN in the dtype of x, dweight_MK, dbias_MK)."""
        rows = self._real(x_MKR, valid_MR)
        dx, dweight, dbias = reference.group_norm_backward(
            dy_MKR.to(rows.x_MN.dtype),
            rows.x_MN.reshape(x_MKR.shape),
            _wide(weight_MK, rows),
            eps=rows.eps,
            valid_MR=valid_MR,
        )
        return rows.gradient(dx.flatten(1)).to(x_MKR.dtype), dweight, dbias

    def _real(self, x_MKR: Tensor, valid_MR: Tensor | None) -> Rows:
        """Rows that hold 0 where a position is not real."""
        x = x_MKR if valid_MR is None else torch.where(valid_MR[:, None], x_MKR, 0)
        return in_range(x.flatten(1), self.eps, center=True)

    def _pieces(
        self, x: Tensor, weight: Tensor | None, bias: Tensor | None, mask: Tensor | None
    ) -> Iterator[tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]]:
        """Rows and what belongs to them, a piece after the other."""
        B, C = x.shape[:2]
        G, K, R = self.groups, C // self.groups, math.prod(x.shape[2:])
        x_MKR = x.reshape(B * G, K, R)
        weight_MK, bias_MK = (
            None if t is None else t.expand(B, C).reshape(B * G, K) for t in (weight, bias)
        )
        valid_MR = None
        if mask is not None:
            valid_MR = mask.reshape(B, 1, R).expand(B, G, R).reshape(B * G, R)
        for piece in pieces(x_MKR.flatten(1)):
            yield x_MKR[piece], _at(piece, weight_MK), _at(piece, bias_MK), _at(piece, valid_MR)


def _at(piece: slice, t: Tensor | None) -> Tensor | None:
    return None if t is None else t[piece]


def _counts(x: Tensor, mask: Tensor | None) -> Tensor:
    """Positions of each sample that count, (B,)."""
    B, R = x.shape[0], math.prod(x.shape[2:])
    if mask is None:
        return torch.full((B,), R, device=x.device)
    return mask.reshape(B, R).sum(1)


def _shaped(y: Tensor, x: Tensor, layout: torch.memory_format) -> Tensor:
    return y.reshape(x.shape).contiguous(memory_format=layout)


def _wide(per_channel: Tensor | None, rows: Rows) -> Tensor | None:
    return None if per_channel is None else per_channel.to(rows.x_MN.dtype)


group_norm = register("group_norm", GroupNormFormula)
