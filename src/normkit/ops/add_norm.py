"""What the ops share that add a residual and normalise the sum, with dropout on x or without."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from normkit import reference
from normkit.ops.formula import Formula, Gradients, in_dtypes
from normkit.ops.kernel import cpu_kernels, wider
from normkit.ops.path import Situation, situation
from normkit.ops.precision import compute_dtype
from normkit.ops.registration import Op
from normkit.ops.row_formula import RowFormula
from normkit.ops.row_kernel import bits, flags, only_needed
from normkit.ops.rows import in_order, joined, pieces, token_rows
from normkit.spec.norm import EpsPlace

# A sum that overflowed is taken again of terms this much smaller. It is a power of two, and what
# it takes from the end of the range is far below the digits of terms that overflow.
_SMALL = 2.0**-64


@dataclass(frozen=True)
class AddNormFormula(Formula):
    """``h = dropout(x) + alpha * residual`` and y, the norm of h over the last ``axes`` axes.

    h has the dtype that x and residual promote to and is rounded before the norm sees it; y has
    the dtype of x. For the backward pass h alone is kept: neither x nor the residual nor the mask.
    """

    tensors: ClassVar[tuple[str, ...]] = ("x", "residual", "weight?", "bias?")
    outputs: ClassVar[int] = 2
    cpu_op: ClassVar[str]
    gradients: ClassVar[tuple[str, ...]] = ("dy?", "dh?")

    axes: int
    eps: float
    eps_place: EpsPlace
    zero_centred: bool
    alpha: float

    @property
    def normaliser(self) -> RowFormula:
        """The norm alone."""
        raise NotImplementedError

    @property
    def drop(self) -> float:
        """The probability that dropout drops an element of x."""
        return 0.0

    def forward(
        self,
        x: Tensor,
        residual: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        seed: Tensor | None = None,
    ) -> tuple[Tensor, ...]:
        """(y, h)."""
        parts = [part for _, *part in self._parts(x, residual, weight, bias, seed)]
        y, h = (joined(t).reshape(x.shape) for t in zip(*parts, strict=True))
        return y, h

    def backward(
        self,
        dy: Tensor | None,
        dh: Tensor | None,
        x: Tensor,
        h: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        seed: Tensor | None = None,
    ) -> Gradients:
        """(dx, dresidual, dweight, dbias); of x only the shape and the dtype are looked at.

        Without dy there is nothing for weight and bias.
        """
        h_MN = token_rows(h, self.axes)
        dy_MN, dh_MN = (None if t is None else token_rows(t, self.axes) for t in (dy, dh))
        totals, of_weight, of_bias = [], [], []
        for piece in pieces(h_MN):
            dy_piece, dh_piece = (None if t is None else t[piece] for t in (dy_MN, dh_MN))
            total, dweight, dbias = self._total(dy_piece, dh_piece, h_MN[piece], weight, bias)
            factor = self._factor(seed, piece, total)
            totals.append(reference.residual_sum_backward(total, alpha=self.alpha, factor=factor))
            of_weight.append(dweight)
            of_bias.append(dbias)
        dx, dresidual = _gathered(totals, x, h)
        return dx, dresidual, _added_up(of_weight, weight), _added_up(of_bias, bias)

    def saved(self, tensors: Any, results: Any) -> Any:
        """h in the place of the residual and, where the dtype is its own, of x."""
        x, h = tensors[0], results[1]
        # A tensor in the shape and dtype of x that takes up one element.
        like_x = h if x.dtype == h.dtype else x.new_zeros(()).expand(x.shape)
        return like_x, h, *tensors[2:]

    def fake(self, x: Tensor, residual: Tensor, *rest: Any) -> tuple[Tensor, ...]:
        """(y, h)."""
        return x.new_empty(x.shape), x.new_empty(x.shape, dtype=sum_dtype(x, residual))

    def run_in_place(self, *tensors: Any) -> tuple[Tensor, ...]:
        """(y, residual), which then holds h; gradients are off."""
        kernels = cpu_kernels(self, tensors)
        if kernels is not None:
            return self.cpu_forward(kernels, *tensors, in_place=True)
        x, residual, *rest = tensors
        if not may_write(x, residual):
            y, h = self.forward(*tensors)
            return y, residual.copy_(h)
        rows, parts = token_rows(residual, self.axes), []
        for piece, y_MN, h_MN in self._parts(x, residual, *rest):
            rows[piece] = h_MN
            parts.append(y_MN)
        return joined(parts).reshape(x.shape), residual

    def cpu_refuses(self, x: Tensor, residual: Tensor, *rest: Tensor | None) -> str | None:
        """Where a tensor is wider than x, or x and residual do not go together."""
        kinds = {x.dtype, residual.dtype}
        if len(kinds) == 2 and (torch.float32 not in kinds or torch.float64 in kinds):
            return f"x is {x.dtype} and the residual {residual.dtype}"
        return wider((x, residual, *rest))

    def cpu_forward(
        self,
        kernels: Any,
        x: Tensor,
        residual: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        seed: Tensor | None = None,
        *,
        in_place: bool = False,
    ) -> tuple[Tensor, ...]:
        """(y, h)."""
        dtype = sum_dtype(x, residual)
        written = in_place and may_write(x, residual)
        h = residual if written else torch.empty(x.shape, dtype=dtype)
        op = getattr(kernels, self.cpu_op)
        y = op(x, residual, weight, bias, h, *self._cpu_options(seed))
        if written and not h.is_inference():  # the kernel wrote past autograd, which must know
            torch.autograd.graph.increment_version(h)
        return y, residual.copy_(h) if in_place and not written else h

    def cpu_backward(self, kernels: Any, needed: Sequence[bool], *args: Any) -> Gradients:
        """(dx, dresidual, dweight, dbias)."""
        dy, dh, _, h, weight, bias, *seed = args
        if dy is None:
            return in_dtypes(self.backward(*args), args[2:])
        op = getattr(kernels, f"{self.cpu_op}_backward")
        options = (*self._cpu_options(*seed), bits(needed[:4]))
        return only_needed(op(dy, dh, h, weight, bias, *options), needed)

    def _cpu_options(self, seed: Tensor | None = None) -> tuple[Any, ...]:
        number = 0 if seed is None else int(seed)
        return self.axes, self.eps, self._flags(), self.alpha, self.drop, number

    def _flags(self) -> int:
        return flags(self.eps_place, self.zero_centred)

    def _parts(
        self,
        x: Tensor,
        residual: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        seed: Tensor | None = None,
    ) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """(piece, y_MN, h_MN), both in their dtypes, a piece of the rows after the other."""
        x_MN, residual_MN = token_rows(x, self.axes), token_rows(residual, self.axes)
        norm, dtype = self.normaliser, sum_dtype(x, residual)
        for piece in pieces(x_MN):
            h_MN = self._sum(x_MN[piece], residual_MN[piece], piece, seed).to(dtype)
            yield piece, norm.rows_forward(h_MN, weight, bias).to(x.dtype), h_MN

    def _sum(self, x_MN: Tensor, residual_MN: Tensor, piece: slice, seed: Tensor | None) -> Tensor:
        """h_MN in the compute dtype, also where a term alone would overflow it."""
        dtype = compute_dtype(x_MN)
        wide = x_MN.to(dtype), residual_MN.to(dtype)
        factor = self._factor(seed, piece, wide[0])
        h = reference.residual_sum(*wide, alpha=self.alpha, factor=factor)
        if torch.finfo(sum_dtype(x_MN, residual_MN)).bits < torch.finfo(dtype).bits:
            return h
        scaled = (t * _SMALL for t in wide)
        again = reference.residual_sum(*scaled, alpha=self.alpha, factor=factor) / _SMALL
        return torch.where(h.isfinite(), h, again)

    def _factor(self, seed: Tensor | None, piece: slice, like: Tensor) -> Tensor | None:
        """What dropout multiplies these rows by; None without dropout."""
        if seed is None:
            return None
        first = piece.start * like.shape[-1]
        words = reference.random_words(seed, first, like.numel(), like.device)
        return reference.dropout_factor(words, self.drop, like.dtype).reshape(like.shape)

    def _total(
        self,
        dy_MN: Tensor | None,
        dh_MN: Tensor | None,
        h_MN: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """(the gradient of h from both outputs, dweight_N, dbias_N) in the compute dtype."""
        if dy_MN is None:
            assert dh_MN is not None  # backward is called with at least one gradient
            # A copy: it may become dresidual, and the tensor that came in is not ours to return.
            return dh_MN.to(compute_dtype(h_MN), copy=True), None, None
        total, dweight, dbias = self.normaliser.rows_backward(dy_MN, h_MN, weight, bias)
        assert total is not None  # the rows always have one
        # dh goes around the norm, not through it.
        return total if dh_MN is None else total + dh_MN.to(total.dtype), dweight, dbias


@dataclass(frozen=True)
class Dropping:
    """Adds dropout to a formula: the mask follows from the seed, in the backward pass again."""

    extras: ClassVar[tuple[str, ...]] = ("seed",)

    p: float

    @property
    def drop(self) -> float:
        """The probability that dropout drops an element of x."""
        return self.p


def sum_dtype(x: Tensor, residual: Tensor) -> torch.dtype:
    """Dtype of h."""
    return torch.promote_types(x.dtype, residual.dtype)


def in_place(op: Op, formula: AddNormFormula, *tensors: Any) -> tuple[Tensor, ...]:
    """(y, residual), which then holds h; gradients are off.

    In a compiled graph the op returns a new h, which is copied: there the compiler decides about
    memory.
    """
    if situation(*tensors) is not Situation.COMPILED:
        return formula.run_in_place(*tensors)
    y, h = op(formula, *tensors)
    return y, tensors[1].copy_(h)


def may_write(x: Tensor, residual: Tensor) -> bool:
    """Whether rows of h may go to the residual's memory while later rows are still to be read."""
    apart = x.untyped_storage().data_ptr() != residual.untyped_storage().data_ptr()
    same = (x.data_ptr(), x.stride()) == (residual.data_ptr(), residual.stride())
    return residual.is_contiguous() and (apart or same)


def _gathered(
    totals: Sequence[tuple[Tensor, Tensor]], x: Tensor, h: Tensor
) -> tuple[Tensor, Tensor]:
    """(dx, dresidual) from those of the pieces, in the dtypes of x and h; one where it is both."""
    of_x, of_residual = zip(*totals, strict=True)
    dx = joined([part.to(x.dtype) for part in of_x]).reshape(h.shape)
    if of_x[0] is of_residual[0] and x.dtype == h.dtype:
        return dx, dx
    return dx, joined([part.to(h.dtype) for part in of_residual]).reshape(h.shape)


def _added_up(parts: Sequence[Tensor | None], parameter: Tensor | None) -> Tensor | None:
    """The gradient of a parameter from those of the pieces; None where there is none."""
    there = [part for part in parts if part is not None]
    return in_order(there).reshape(parameter.shape) if there and parameter is not None else None
