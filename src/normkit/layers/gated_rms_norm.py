"""GatedRMSNorm: RMSNorm with a gate, as Mamba 2 and Qwen3-Next have it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from normkit import functional
from normkit.functional.gated_rms_norm import check_gating
from normkit.layers.fast_path import keep_called
from normkit.layers.layer_norm import more_options
from normkit.layers.parameters import register_parameters, weight_and_bias
from normkit.ops.check import NormalizedShape
from normkit.spec.norm import GateFunction, GatePlace, Rounding
from normkit.spec.shape import as_shape


class GatedRMSNorm(nn.Module):
    """``y = x / sqrt(mean(x^2) + eps) * weight * silu(gate)`` over the last axes.

    The state_dict is that of transformers' and mamba_ssm's gated norms: ``weight``.

    Args:
        normalized_shape: int, tuple, list or Size: sizes of the last axes, which are normalised.
        eps: added to the mean square.
        elementwise_affine: have a weight (and a bias).
        device, dtype: of the parameters.
        bias: have a bias too.
        gate_function: ``silu`` or ``sigmoid``.
        gate_place: ``after`` multiplies the normalised, gained value (Qwen3-Next);
            ``before`` multiplies x, and the norm sees the product (Mamba 2).
        groups: the mean square is taken within each of so many groups of contiguous features:
            Mamba 2's ``d // group_size``.
        zero_centred: the gain is 1 + weight, and weight starts at 0.
        rounding: ``once`` at the end (mamba_ssm); ``before_gain`` also rounds the normalised value
            and, where the gate comes after, the gained one (transformers).

    Shape:
        x (*, *normalized_shape), any floating dtype and strides; gate broadcastable to x, of any
        floating dtype -> y of the shape and dtype of x, also under autocast.

    Raises:
        ShapeError, DtypeError, OptionError: each with a sentence that says what to type.

    Source: Dao and Gu 2024 (Mamba 2), arXiv:2405.21060.

    Example:
        >>> norm = GatedRMSNorm(2, gate_place="before", gate_function="sigmoid")
        >>> norm(torch.tensor([[3.0, 4.0]]), torch.zeros(1, 2)).detach()
        tensor([[0.8485, 1.1314]])
    """

    weight: nn.Parameter | None
    bias: nn.Parameter | None
    gate_function: GateFunction = "silu"
    gate_place: GatePlace = "after"
    groups: int = 1
    zero_centred: bool = False
    rounding: Rounding = "once"

    def __init__(
        self,
        normalized_shape: NormalizedShape,
        eps: float = 1e-6,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        bias: bool = False,
        gate_function: GateFunction = "silu",
        gate_place: GatePlace = "after",
        groups: int = 1,
        zero_centred: bool = False,
        rounding: Rounding = "once",
    ) -> None:
        """Create the parameters; see the class for the arguments."""
        super().__init__()
        shape = as_shape("GatedRMSNorm", normalized_shape)
        check_gating("GatedRMSNorm", shape, gate_function, gate_place, groups, rounding)
        self.normalized_shape = shape
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self.gate_function = gate_function
        self.gate_place = gate_place
        self.groups = groups
        self.zero_centred = zero_centred
        self.rounding = rounding
        shapes = weight_and_bias(shape, weight=elementwise_affine, bias=bias)
        register_parameters(self, shapes, device, dtype)
        self.reset_parameters()
        keep_called(self)

    def reset_parameters(self) -> None:
        """Weight 1 (0 where zero_centred), bias 0."""
        if self.weight is not None:
            nn.init.constant_(self.weight, 0.0 if self.zero_centred else 1.0)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Tensor, gate: Tensor) -> Tensor:
        """Normalise and gate; see the class for shapes."""
        return functional.gated_rms_norm(
            x,
            gate,
            self.normalized_shape,
            self.weight,
            self.eps,
            bias=self.bias,
            gate_function=self.gate_function,
            gate_place=self.gate_place,
            groups=self.groups,
            zero_centred=self.zero_centred,
            rounding=self.rounding,
        )

    def extra_repr(self) -> str:
        """The arguments, those after elementwise_affine only where they are not the default."""
        text = f"{self.normalized_shape}, eps={self.eps}"
        text += f", elementwise_affine={self.elementwise_affine}"
        if self.bias is not None:
            text += ", bias=True"
        names = ("gate_function", "gate_place", "groups", "zero_centred", "rounding")
        return text + more_options(self, names)
