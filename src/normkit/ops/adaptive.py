"""What the ops of the adaptive norms share: scale and shift as rows beside x."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from normkit.ops.formula import Gradients
from normkit.ops.kernel import wider
from normkit.ops.row_formula import RowFormula
from normkit.ops.row_kernel import bits, only_needed
from normkit.ops.rows import summed_to
from normkit.reference.adaptive import modulated, modulated_backward


@dataclass(frozen=True)
class AdaptiveFormula(RowFormula):
    """A norm over the last ``axes`` axes, then ``* (1 + scale) + shift``; y has the dtype of x.

    Attributes:
        center: whether the mean is subtracted.
        cpu_op: the name of the compiled op.
    """

    tensors: ClassVar[tuple[str, ...]] = ("x", "scale", "shift?")
    row_tensors: ClassVar[tuple[str, ...]] = ("x", "scale", "shift")
    center: ClassVar[bool]
    cpu_op: ClassVar[str]

    def rows_forward(self, x_MN: Tensor, scale_MN: Tensor, shift_MN: Tensor | None) -> Tensor:
        """y_MN in the compute dtype."""
        rows = self._rows(x_MN)
        dtype = rows.x_MN.dtype
        shift_MN = None if shift_MN is None else shift_MN.to(dtype)
        return modulated(rows.x_MN, scale_MN.to(dtype), shift_MN, center=self.center, eps=rows.eps)

    def rows_backward(
        self, dy_MN: Tensor, x_MN: Tensor, scale_MN: Tensor, shift_MN: Tensor | None
    ) -> Gradients:
        """(dx_MN, dscale_MN, dshift_MN) in the compute dtype."""
        rows = self._rows(x_MN)
        dtype = rows.x_MN.dtype
        dy = dy_MN.to(dtype, copy=True)  # it is dshift, and may not be the tensor that came in
        dx, dscale, dshift = modulated_backward(
            dy, rows.x_MN, scale_MN.to(dtype), center=self.center, eps=rows.eps
        )
        return rows.gradient(dx), dscale, dshift

    def cpu_refuses(self, *tensors: Tensor | None) -> str | None:
        """Where scale or shift is wider than x."""
        return wider(tensors)

    def cpu_forward(self, kernels: Any, *tensors: Any) -> tuple[Tensor, ...]:
        """(y,)."""
        x, *given = tensors
        if not x.numel():
            return (torch.empty(x.shape, dtype=x.dtype),)
        op = getattr(kernels, self.cpu_op)
        return (op(x, *_by_groups(x, given, self.axes), self.axes, self.eps),)

    def cpu_backward(self, kernels: Any, needed: Sequence[bool], *args: Any) -> Gradients:
        """(dx, dscale, dshift)."""
        dy, x, *given = args
        if not x.numel():
            return tuple(None if t is None else torch.zeros_like(t) for t in (x, *given))
        groups = _by_groups(x, given, self.axes)
        pairs = list(zip(given, groups, strict=True))
        # A gradient that is to be summed further is not rounded before that.
        wide = [g is not None and g.numel() > t.numel() for t, g in pairs]
        op = getattr(kernels, f"{self.cpu_op}_backward")
        how = bits((*needed[:3], False, *wide))
        dx, *found = only_needed(op(dy, x, *groups, self.axes, self.eps, how), needed)
        return dx, *(_like(g, t, x, self.axes) for g, t in zip(found, given, strict=True))


def _by_groups(x: Tensor, tensors: Sequence[Tensor | None], axes: int) -> list[Tensor | None]:
    """Each tensor as ``(*first axes of x, *normalised)``, one row for a group of rows of x.

    With as few of x's first axes as serve all tensors: (B, 1, D) beside x (B, T, D) gives (B, D).
    """
    before = x.dim() - axes
    shapes = [(1,) * (x.dim() - t.dim()) + t.shape for t in tensors if t is not None]
    first = max((i + 1 for shape in shapes for i in range(before) if shape[i] != 1), default=0)
    same = (slice(None),) * first + (0,) * (before - first)
    return [None if t is None else t.expand(x.shape)[same] for t in tensors]


def _like(gradient: Tensor | None, t: Tensor | None, x: Tensor, axes: int) -> Tensor | None:
    """The gradient of t from that of its rows by groups."""
    if gradient is None or t is None:
        return None
    if gradient.numel() > t.numel():
        ones = (1,) * (x.dim() - gradient.dim())
        split = gradient.dim() - axes
        shape = gradient.shape[:split] + ones + gradient.shape[split:]
        gradient = summed_to(gradient.reshape(shape).double(), t.shape)
    return gradient.reshape(t.shape).to(t.dtype)
