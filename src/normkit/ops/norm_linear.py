"""norm_linear: a norm and the linear layers behind it, which keep x and not the norm's output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from normkit import reference
from normkit.ops.formula import Formula, Gradients, in_dtypes
from normkit.ops.layer_norm import LayerNormFormula
from normkit.ops.registration import register
from normkit.ops.rms_norm import RMSNormFormula
from normkit.ops.rows import token_rows
from normkit.reference.norm_linear import Linear
from normkit.spec.norm import EpsPlace, OutputDtype, Rounding

LinearNorm = Literal["layer_norm", "rms_norm"]
LINEAR_NORMS: tuple[LinearNorm, ...] = ("layer_norm", "rms_norm")
MOST_LINEARS = 3  # query, key and value; an op has a fixed number of tensors

Maybe = Sequence[Tensor | None]


@dataclass(frozen=True)
class NormLinearFormula(Formula):
    """A norm over the last ``axes`` axes, and up to three linear layers on what it returns.

    All outputs are there always; that of a linear layer without a weight is empty. The backward
    pass computes y, the norm's output, again.

    Attributes:
        norm: which one; the fields after it up to ``measured`` are the norm's own.
        linear_dtype: what autocast casts y, weights and biases to, as ``bfloat16``; None without.
    """

    tensors: ClassVar[tuple[str, ...]] = (
        *("x", "norm_weight?", "norm_bias?"),
        *("weight", "bias?", "weight_2?", "bias_2?", "weight_3?", "bias_3?"),
    )
    outputs: ClassVar[int] = MOST_LINEARS
    gradients: ClassVar[tuple[str, ...]] = ("dout?", "dout_2?", "dout_3?")

    norm: LinearNorm
    axes: int
    eps: float
    eps_place: EpsPlace
    zero_centred: bool
    rounding: Rounding
    output_dtype: OutputDtype
    measured: int | None
    linear_dtype: str | None

    def forward(self, *tensors: Any) -> tuple[Tensor, ...]:
        """(out, out_2, out_3)."""
        (y,) = self.normaliser.forward(*tensors[:3])
        return self._projected(y, tensors[3:])

    def run(self, *tensors: Any) -> tuple[Tensor, ...]:
        """The same, the norm by its own fastest implementation."""
        (y,) = self.normaliser.run(*tensors[:3])
        return self._projected(y, tensors[3:])

    def backward(self, *args: Any) -> Gradients:
        """One gradient for each of ``tensors``, of differentiable operations."""
        gradients, tensors = args[:MOST_LINEARS], args[MOST_LINEARS:]
        needed = [t is not None for t in tensors]
        dlinears = self._of_linears(gradients, tensors, needed, self.normaliser.forward)
        dy = self._of_output(gradients, tensors)
        return *self.normaliser.backward(dy, *tensors[:3]), *dlinears

    def run_backward(self, gradients: Maybe, tensors: Maybe, needed: Sequence[bool]) -> Gradients:
        """The same, only what is needed; the norm by its own fastest implementation."""
        dlinears = self._of_linears(gradients, tensors, needed, self.normaliser.run)
        dnorm: Gradients = (None, None, None)
        if any(needed[:3]):
            dy = self._of_output(gradients, tensors)
            dnorm = self.normaliser.run_backward((dy,), tensors[:3], needed[:3])
        return in_dtypes((*dnorm, *dlinears), tensors)

    def fake(self, x: Tensor, *rest: Any) -> tuple[Tensor, ...]:
        """(out, out_2, out_3)."""
        return tuple(
            x.new_empty(0)
            if weight is None
            else x.new_empty((*x.shape[:-1], weight.shape[0]), dtype=self.cast_dtype(weight.dtype))
            for weight in rest[2::2]
        )

    @property
    def normaliser(self) -> LayerNormFormula | RMSNormFormula:
        """The norm alone."""
        how = (self.axes, self.eps, self.eps_place, self.zero_centred)
        if self.norm == "layer_norm":
            return LayerNormFormula(*how, impl=self.impl)
        more = (self.rounding, self.output_dtype, self.measured)
        return RMSNormFormula(*how, *more, impl=self.impl)

    def cast_dtype(self, dtype: torch.dtype) -> torch.dtype:
        """The dtype in which the linear layers see a tensor; autocast leaves float64 alone."""
        if self.linear_dtype is None or dtype == torch.float64:
            return dtype
        kept: torch.dtype = getattr(torch, self.linear_dtype)
        return kept

    def _cast(self, t: Tensor) -> Tensor:
        # Not by autocast itself, whose cache would keep a copy of the weight that has no gradient.
        return t.to(self.cast_dtype(t.dtype))

    def _linears(self, parameters: Maybe) -> list[Linear | None]:
        """The linear layers in the dtype that they compute in; None in the place of none."""
        pairs = zip(parameters[::2], parameters[1::2], strict=True)
        return [
            None if w is None else (self._cast(w), None if b is None else self._cast(b))
            for w, b in pairs
        ]

    def _projected(self, y: Tensor, parameters: Maybe) -> tuple[Tensor, ...]:
        linears = self._linears(parameters)
        there = iter(reference.norm_linear(self._cast(y), [one for one in linears if one]))
        return tuple(y.new_empty(0) if one is None else next(there) for one in linears)

    def _of_linears(
        self,
        gradients: Maybe,
        tensors: Maybe,
        needed: Sequence[bool],
        normalise: Callable[..., tuple[Tensor, ...]],
    ) -> Gradients:
        """(dweight, dbias) of each linear layer; y is computed if a weight needs it."""
        pairs = list(zip(gradients, needed[3::2], needed[4::2], strict=True))
        y_MN = None
        if any(dout is not None and weight for dout, weight, _ in pairs):
            (y,) = normalise(*tensors[:3])
            y_MN = self._cast(token_rows(y, 1))
        found: list[Tensor | None] = []
        for dout, weight, bias in pairs:
            if dout is None:
                found += [None, None]
                continue
            y_seen = y_MN if weight else None
            _, *both = reference.norm_linear_backward(token_rows(dout, 1), y_seen, None, bias=bias)
            found += both
        return tuple(found)

    def _of_output(self, gradients: Maybe, tensors: Maybe) -> Tensor:
        """Dy, in the dtype of y: the sum over the linear layers.

        Each is rounded and the last is added to first, as autograd does with layers called apart.
        """
        x = tensors[0]
        assert x is not None  # no formula lets x be absent
        dtype = self.normaliser.output_dtype_of(x, *tensors[1:3])
        total: Tensor | None = None
        for dout, weight in list(zip(gradients, tensors[3::2], strict=True))[::-1]:
            if dout is None or weight is None:
                continue
            rows = token_rows(dout, 1)
            dy, *_ = reference.norm_linear_backward(rows, None, self._cast(weight), bias=False)
            assert dy is not None  # the weight was given
            total = dy.to(dtype) if total is None else total + dy.to(dtype)
        assert total is not None  # backward is called with at least one gradient
        return total.reshape(x.shape)


norm_linear = register("norm_linear", NormLinearFormula)
