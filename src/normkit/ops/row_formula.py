"""What norms over the last axes share: tensors as rows, pieces of rows, sums over pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from normkit.ops.formula import Formula, Gradients
from normkit.ops.precision import Rows, in_range
from normkit.ops.rows import in_order, joined, pieces, summed_to, token_rows
from normkit.spec.norm import EpsPlace


@dataclass(frozen=True)
class Rowwise(Formula):
    """A function of rows, the last ``axes`` axes; y is contiguous.

    A subclass writes the formula for a piece of the rows. Its tensors that are named in
    ``row_tensors`` come to it as rows (M, N), where broadcast over x expanded; all others whole.

    Attributes:
        row_tensors: names of the tensors that have rows of their own, x first.
    """

    row_tensors: ClassVar[tuple[str, ...]] = ("x",)

    axes: int

    def rows_forward(self, *args: Any, **kwargs: Any) -> Tensor:
        """y_MN in any dtype for ``tensors``."""
        raise NotImplementedError

    def rows_backward(self, *args: Any, **kwargs: Any) -> Gradients:
        """Gradients of ``tensors``, given ``(dy_MN, *tensors)``.

        Rows for row tensors; for all others the sum over these rows, flat.
        """
        raise NotImplementedError

    def output_dtype_of(self, x: Tensor, *rest: Tensor | None) -> torch.dtype:
        """Dtype of y."""
        return x.dtype

    def forward(self, x: Tensor, *rest: Tensor | None) -> tuple[Tensor, ...]:
        """(y,)."""
        dtype = self.output_dtype_of(x, *rest)
        tensors = self._as_rows(x, *rest)
        y = [self.rows_forward(*t).to(dtype) for t in self._in_pieces(tensors)]
        return (joined(y).reshape(x.shape),)

    def backward(self, dy: Tensor, x: Tensor, *rest: Tensor | None) -> Gradients:
        """One gradient for each tensor."""
        tensors, dy_MN = self._as_rows(x, *rest), token_rows(dy, self.axes)
        dy_pieces = (dy_MN[piece] for piece in pieces(dy_MN))
        parts = [
            self.rows_backward(g_MN, *t)
            for g_MN, t in zip(dy_pieces, self._in_pieces(tensors), strict=True)
        ]
        found = zip(self._is_rows(), (x, *rest), zip(*parts, strict=True), strict=True)
        return tuple(
            None if tensor is None else _gathered(of_pieces, tensor, x.shape if is_rows else None)
            for is_rows, tensor, of_pieces in found
        )

    def fake(self, x: Tensor, *rest: Tensor | None) -> tuple[Tensor, ...]:
        """(y,)."""
        return (x.new_empty(x.shape, dtype=self.output_dtype_of(x, *rest)),)

    def _is_rows(self) -> list[bool]:
        return [name.removesuffix("?") in self.row_tensors for name in self.tensors]

    def _as_rows(self, x: Tensor, *rest: Tensor | None) -> list[Tensor | None]:
        return [
            token_rows(t.expand(x.shape), self.axes) if is_rows and t is not None else t
            for t, is_rows in zip((x, *rest), self._is_rows(), strict=True)
        ]

    def _in_pieces(self, tensors: Sequence[Tensor | None]) -> Iterator[list[Tensor | None]]:
        x_MN = tensors[0]
        assert x_MN is not None  # no formula lets x be absent
        for piece in pieces(x_MN):
            yield [
                t[piece] if is_rows and t is not None else t
                for t, is_rows in zip(tensors, self._is_rows(), strict=True)
            ]


@dataclass(frozen=True)
class RowFormula(Rowwise):
    """A norm: a row is divided by its spread.

    Attributes:
        center: the norm subtracts a mean.
    """

    center: ClassVar[bool] = False

    eps: float
    eps_place: EpsPlace

    def _rows(self, x_MN: Tensor) -> Rows:
        return in_range(x_MN, self.eps, self.eps_place, center=self.center)


def _gathered(parts: Sequence[Tensor], tensor: Tensor, rows_of: torch.Size | None) -> Tensor:
    """The gradient of ``tensor`` from those of the pieces: joined for rows, else added up."""
    if rows_of is None:
        return in_order(parts).reshape(tensor.shape)
    if tensor.shape == rows_of:
        return joined([part.to(tensor.dtype) for part in parts]).reshape(rows_of)
    return summed_to(joined(parts).reshape(rows_of), tensor.shape)
