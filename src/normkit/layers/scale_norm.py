"""ScaleNorm: a token divided by its length, times one learned number."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from normkit import functional
from normkit.errors import OptionError, ShapeError, check_choice, sentence
from normkit.functional.nested import over_nested
from normkit.layers.fast_path import keep_called
from normkit.layers.layer_norm import more_options
from normkit.spec.norm import EPS_PLACES, EpsPlace


class ScaleNorm(nn.Module):
    """``y = weight * x / max(|x|, eps)``, |x| the length of a token, weight one number.

    The weight starts at sqrt(width), where a new ScaleNorm is an RMSNorm without a gain.

    Args:
        width: size of the last axis.
        eps: the least length that is divided by.
        device, dtype: of the weight.
        eps_place: ``inside`` divides by ``sqrt(|x|^2 + eps)``, ``outside`` by ``|x| + eps``.
        zero_centred: the gain is ``sqrt(width) * (1 + weight)``, and weight starts at 0.

    Shape:
        x (*, width), any floating dtype and strides -> y of the same shape and dtype.

    Raises:
        ShapeError, DtypeError, OptionError: each with a sentence that says what to type.

    Source: Nguyen and Salazar 2019, arXiv:1910.05895.

    Example:
        >>> ScaleNorm(4)(torch.tensor([[1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 3.0, 4.0]])).detach()
        tensor([[1.0000, 1.0000, 1.0000, 1.0000],
                [0.0000, 0.0000, 1.2000, 1.6000]])
    """

    eps_place: EpsPlace = "clamp"
    zero_centred: bool = False
    weight: nn.Parameter
    bias: None

    def __init__(
        self,
        width: int,
        eps: float = 1e-5,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        eps_place: EpsPlace = "clamp",
        zero_centred: bool = False,
    ) -> None:
        """Create the weight; see the class for the arguments."""
        super().__init__()
        check_choice("ScaleNorm", "eps_place", eps_place, EPS_PLACES)
        self.width = checked_width("ScaleNorm", "width", width)
        self.eps = eps
        self.eps_place = eps_place
        self.zero_centred = zero_centred
        self.weight = nn.Parameter(torch.empty(1, device=device, dtype=dtype))
        self.register_parameter("bias", None)
        self.reset_parameters()
        keep_called(self)

    def reset_parameters(self) -> None:
        """Weight sqrt(width) (0 where zero_centred)."""
        nn.init.constant_(self.weight, 0.0 if self.zero_centred else math.sqrt(self.width))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise; see the class for shapes."""
        return _normalised(x, self)

    def extra_repr(self) -> str:
        """Width, eps, and the options that are set."""
        text = f"{self.width}, eps={self.eps}"
        return text + more_options(self, ("eps_place", "zero_centred"))


@over_nested
def _normalised(x: Tensor, layer: ScaleNorm) -> Tensor:
    if x.shape[-1:] != (layer.width,):
        rule = f"the last axis of x must be the width, {layer.width}"
        fix = f"Try width={x.shape[-1]}" if x.dim() else ""
        raise ShapeError(sentence("ScaleNorm", rule, f"x is {tuple(x.shape)}", fix))
    return functional.scale_norm(
        x,
        layer.weight,
        layer.eps,
        eps_place=layer.eps_place,
        zero_centred=layer.zero_centred,
    )


def checked_width(who: str, name: str, width: Any) -> int:
    """An int of at least 1, from anything that stands for one (a numpy integer)."""
    try:
        size = width.__index__()
    except AttributeError:
        size = 0
    if size < 1:
        rule = f"{name} must be an integer of at least 1"
        raise OptionError(sentence(who, rule, f"it is {width!r}"))
    return int(size)
