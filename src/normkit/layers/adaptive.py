"""AdaptiveLayerNorm and AdaptiveRMSNorm: scale and shift from a condition (adaLN, adaLN-zero)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from normkit import functional
from normkit.errors import OptionError, ShapeError, check_choice, sentence
from normkit.layers.fast_path import keep_called
from normkit.layers.layer_norm import more_options
from normkit.ops.check import NormalizedShape, check_floating
from normkit.spec.shape import as_shape

Activation = Literal["silu", "none"]
_ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "silu": nn.functional.silu,
    "none": lambda condition: condition,
}


class _Projection(nn.Linear):
    """A Linear layer that may start from 0, and that takes input of another dtype.

    It resets itself to 0, so that code which calls the ``reset_parameters`` of every module in
    turn keeps the start.
    """

    zero_init = True

    def reset_parameters(self) -> None:
        """Zeros, or the start of nn.Linear."""
        if not self.zero_init:
            super().reset_parameters()
            return
        for parameter in self.parameters():
            nn.init.zeros_(parameter)

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 (torch's name)
        """``input @ weight.T + bias``; of two dtypes in the one that both promote to."""
        dtype = torch.promote_types(input.dtype, self.weight.dtype)
        if dtype == input.dtype == self.weight.dtype:
            return super().forward(input)
        return nn.functional.linear(input.to(dtype), self.weight.to(dtype), self.bias.to(dtype))


class _AdaptiveNorm(nn.Module):
    """What the two share: the projection of the condition, and how it stands against x."""

    function: ClassVar[Callable[..., Tensor]]

    weight: None
    bias: None
    zero_init: bool = True
    gate: bool = False
    activation: Activation = "silu"

    def __init__(
        self,
        normalized_shape: NormalizedShape,
        condition_width: int,
        eps: float = 1e-6,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        zero_init: bool = True,
        gate: bool = False,
        activation: Activation = "silu",
    ) -> None:
        """Create the projection; see the class for the arguments."""
        super().__init__()
        who = type(self).__name__
        check_choice(who, "activation", activation, tuple(_ACTIVATIONS))
        if not isinstance(condition_width, int) or condition_width < 1:
            rule = "condition_width must be an integer of at least 1"
            raise OptionError(sentence(who, rule, f"it is {condition_width!r}"))
        self.normalized_shape = as_shape(who, normalized_shape)
        self.condition_width = condition_width
        self.eps = eps
        self.zero_init = zero_init
        self.gate = gate
        self.activation = activation
        self.register_parameter("weight", None)
        self.register_parameter("bias", None)
        width = (3 if gate else 2) * math.prod(self.normalized_shape)
        self.projection = _Projection(condition_width, width, device=device, dtype=dtype)
        self.projection.zero_init = zero_init
        self.reset_parameters()
        keep_called(self)

    def reset_parameters(self) -> None:
        """The projection gives 0, or starts as nn.Linear does where zero_init is False."""
        self.projection.reset_parameters()

    def forward(self, x: Tensor, condition: Tensor) -> Any:
        """Normalise, scale and shift; see the class for shapes."""
        check_floating(type(self).__name__, x)
        shape = self._checked(x, condition)
        wide = condition.to(torch.promote_types(condition.dtype, self.projection.weight.dtype))
        parts = self.projection(_ACTIVATIONS[self.activation](wide))
        shift, scale, *gate = (
            part.reshape(shape) for part in parts.chunk(3 if self.gate else 2, dim=-1)
        )
        y = type(self).function(x, self.normalized_shape, scale, shift, self.eps)
        return (y, gate[0].to(x.dtype)) if gate else y

    def _checked(self, x: Tensor, condition: Tensor) -> tuple[int, ...]:
        """The shape in which what comes from the condition broadcasts to x.

        The axes of the condition before its last are those of x, from the first on.
        """
        leading = x.shape[: max(0, x.dim() - len(self.normalized_shape))]
        given = condition.shape[:-1]
        fits = len(given) <= len(leading) and condition.shape[-1:] == (self.condition_width,)
        if not fits or any(g not in (1, n) for g, n in zip(given, leading, strict=False)):
            width = self.condition_width
            sample, token = (*leading[:1], width), (*leading, width)
            rule = f"condition must be {sample}, one per sample, or {token}, one per token"
            came = f"it is {tuple(condition.shape)} for x {tuple(x.shape)}"
            raise ShapeError(sentence(type(self).__name__, rule, came))
        return (*given, *(1,) * (len(leading) - len(given)), *self.normalized_shape)

    def extra_repr(self) -> str:
        """The arguments, those after eps only where they are not the default."""
        text = f"{self.normalized_shape}, condition_width={self.condition_width}, eps={self.eps}"
        return text + more_options(self, ("zero_init", "gate", "activation"))


class AdaptiveLayerNorm(_AdaptiveNorm):
    """``y = LN(x) * (1 + scale) + shift``, scale and shift from a condition (DiT's adaLN).

    ``(shift, scale) = Linear(silu(condition))``, and LN has no gain and bias of its own. The
    projection starts at 0: a new layer is the plain norm. With ``gate`` a third part comes out,
    and a branch multiplied by it starts as 0 (adaLN-zero). The order of the parts is DiT's, so
    rows 0 to 3D of its ``adaLN_modulation.1`` are the projection of a block's first norm, and rows
    3D to 6D that of its second.

    Args:
        normalized_shape: int, tuple, list or Size: sizes of the last axes, which share one mean
            and variance; D is their product.
        condition_width: size of the last axis of the condition.
        eps: added to the variance.
        device, dtype: of the projection.
        zero_init: the projection starts at 0; else as nn.Linear does.
        gate: forward returns (y, gate).
        activation: what the condition goes through before the projection, ``silu`` or ``none``.

    Shape:
        x (B, T, D) or any (*, *normalized_shape); condition (B, condition_width), one per sample,
        or (B, T, condition_width), one per token -> y of the shape and dtype of x; gate of the
        dtype of x and broadcastable to it: (B, 1, D) or (B, T, D).

    Raises:
        ShapeError, DtypeError, OptionError: each with a sentence that says what to type.

    Source: Peebles and Xie 2022 (DiT), arXiv:2212.09748.

    Example:
        >>> norm = AdaptiveLayerNorm(3, 5, gate=True)
        >>> y, gate = norm(torch.tensor([[[1.0, 2.0, 3.0]]]), torch.randn(1, 5))
        >>> y.detach(), gate.abs().sum().item()
        (tensor([[[-1.2247,  0.0000,  1.2247]]]), 0.0)
    """

    function = staticmethod(functional.adaptive_layer_norm)


class AdaptiveRMSNorm(_AdaptiveNorm):
    """``y = RMS(x) * (1 + scale) + shift``, scale and shift from a condition.

    :class:`AdaptiveLayerNorm` without the mean: same arguments, shapes and projection, with
    ``RMS(x) = x / sqrt(mean(x^2) + eps)``.

    Source: Peebles and Xie 2022 (DiT), arXiv:2212.09748, with an RMSNorm inside.

    Example:
        >>> AdaptiveRMSNorm(2, 5)(torch.tensor([[3.0, 4.0]]), torch.randn(1, 5)).detach()
        tensor([[0.8485, 1.1314]])
    """

    function = staticmethod(functional.adaptive_rms_norm)
