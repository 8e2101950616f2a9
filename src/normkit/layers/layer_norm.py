"""LayerNorm: torch's, exact in every regime, with the other places of eps and gain conventions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from normkit import functional
from normkit.errors import check_choice
from normkit.layers.fast_path import keep_called
from normkit.ops.check import NormalizedShape
from normkit.ops.direct import direct
from normkit.spec.norm import EPS_PLACES, EpsPlace
from normkit.spec.shape import as_shape


class LayerNorm(nn.LayerNorm):
    """``y = (x - mean) / sqrt(var + eps) * weight + bias`` over the last axes, var with 1/n.

    A drop-in for ``torch.nn.LayerNorm``: same signature, parameters, state_dict and repr.

    Args:
        normalized_shape: int, tuple, list or Size: sizes of the last axes, which share one mean
            and variance.
        eps: added to the variance.
        elementwise_affine: have a weight (and a bias).
        bias: have a bias.
        device, dtype: of the parameters.
        eps_place: ``outside`` divides by ``std + eps``, ``clamp`` by ``max(std, eps)``.
        zero_centred: the gain is 1 + weight, and weight starts at 0.

    Shape:
        x (*, *normalized_shape), any floating dtype and strides -> y of the same shape and dtype,
        also under autocast (torch's returns float32 under CUDA's autocast).

    Raises:
        ShapeError, DtypeError, OptionError: each with a sentence that says what to type.

    Source: Ba, Kiros, Hinton 2016, arXiv:1607.06450.

    Example:
        >>> LayerNorm(3)(torch.tensor([[1.0, 2.0, 3.0]])).detach()
        tensor([[-1.2247,  0.0000,  1.2247]])
    """

    eps_place: EpsPlace = "inside"
    zero_centred: bool = False

    def __init__(
        self,
        normalized_shape: NormalizedShape,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        eps_place: EpsPlace = "inside",
        zero_centred: bool = False,
    ) -> None:
        """Create the parameters; see the class for the arguments."""
        check_choice("LayerNorm", "eps_place", eps_place, EPS_PLACES)
        shape = as_shape("LayerNorm", normalized_shape)
        super().__init__(shape, eps, elementwise_affine, bias, device, dtype)
        self.eps_place = eps_place
        self.zero_centred = zero_centred
        self.reset_parameters()
        if eps_place != "inside" or zero_centred or self.weight is None or self.bias is None:
            keep_called(self)

    def reset_parameters(self) -> None:
        """Weight 1 (0 where zero_centred), bias 0."""
        super().reset_parameters()
        if self.zero_centred and self.weight is not None:
            nn.init.zeros_(self.weight)

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 (torch's name)
        """Normalise; see the class for shapes."""
        if len(self.normalized_shape) == 1 and self.eps_place == "inside" and not self.zero_centred:
            y = direct("layer_norm", input, self._parameters, self.eps)
            if y is not None:
                return y
        return functional.layer_norm(
            input,
            self.normalized_shape,
            self.weight,
            self.bias,
            self.eps,
            eps_place=self.eps_place,
            zero_centred=self.zero_centred,
        )

    def extra_repr(self) -> str:
        """torch's text, and the options that torch does not have where they are set."""
        return super().extra_repr() + more_options(self, ("eps_place", "zero_centred"))


def more_options(module: nn.Module, names: tuple[str, ...]) -> str:
    """Write the named attributes that differ from their class's default."""
    changed = (n for n in names if getattr(module, n) != getattr(type(module), n))
    return "".join(f", {name}={getattr(module, name)!r}" for name in changed)
