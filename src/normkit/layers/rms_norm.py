"""RMSNorm: torch's, with the conventions that Llama, Gemma, Apex and the paper differ in."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from normkit import functional
from normkit.errors import check_choice
from normkit.layers.fast_path import keep_called
from normkit.layers.layer_norm import more_options
from normkit.ops.check import NormalizedShape, measured_features
from normkit.ops.direct import direct
from normkit.spec.norm import (
    EPS_PLACES,
    OUTPUT_DTYPES,
    ROUNDINGS,
    EpsPlace,
    OutputDtype,
    Rounding,
)
from normkit.spec.shape import as_shape


class RMSNorm(nn.RMSNorm):
    """``y = x / sqrt(mean(x^2) + eps) * weight`` over the last axes.

    A drop-in for ``torch.nn.RMSNorm``: same signature, parameters and state_dict.

    Args:
        normalized_shape: int, tuple, list or Size: sizes of the last axes, which share one mean
            square.
        eps: added to the mean square. None stays None and computes as torch does, with 1.19e-7,
            for float64 input with 2.2e-16; the repr shows both.
        elementwise_affine: have a weight.
        device, dtype: of the parameters.
        bias: have a bias too.
        eps_place: ``outside`` divides by ``rms + eps`` (the authors' code), ``clamp`` by
            ``max(rms, eps)``.
        zero_centred: the gain is 1 + weight, and weight starts at 0 (Gemma).
        rounding: ``once`` at the end (torch, Gemma); ``before_gain`` also rounds the normalised
            value to the dtype of x (Llama).
        output_dtype: that of the ``input``, the ``promoted`` one of x and weight (Llama with a
            float32 weight), or the ``weight``'s (Apex's mixed norms).
        fraction: part of the features, the first ones, that the mean square sees (pRMSNorm).

    Shape:
        x (*, *normalized_shape), any floating dtype and strides -> y of the same shape, also
        under autocast (torch's may return float32 under CUDA's autocast).

    Raises:
        ShapeError, DtypeError, OptionError: each with a sentence that says what to type.

    Source: Zhang and Sennrich 2019, arXiv:1910.07467.

    Example:
        >>> RMSNorm(2)(torch.tensor([[3.0, 4.0]])).detach()
        tensor([[0.8485, 1.1314]])
        >>> RMSNorm(2).extra_repr().split(", elementwise")[0]
        '(2,), eps=None (computes with 1.19e-07, for float64 2.22e-16)'
    """

    bias: Tensor | None
    eps_place: EpsPlace = "inside"
    zero_centred: bool = False
    rounding: Rounding = "once"
    output_dtype: OutputDtype = "input"
    fraction: float = 1.0

    def __init__(
        self,
        normalized_shape: NormalizedShape,
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        bias: bool = False,
        eps_place: EpsPlace = "inside",
        zero_centred: bool = False,
        rounding: Rounding = "once",
        output_dtype: OutputDtype = "input",
        fraction: float = 1.0,
    ) -> None:
        """Create the parameters; see the class for the arguments."""
        check_choice("RMSNorm", "eps_place", eps_place, EPS_PLACES)
        check_choice("RMSNorm", "rounding", rounding, ROUNDINGS)
        check_choice("RMSNorm", "output_dtype", output_dtype, OUTPUT_DTYPES)
        shape = as_shape("RMSNorm", normalized_shape)
        measured_features("RMSNorm", shape, fraction)
        super().__init__(shape, eps, elementwise_affine, device, dtype)
        zeros = torch.zeros(shape, device=device, dtype=dtype) if bias else None
        self.register_parameter("bias", None if zeros is None else nn.Parameter(zeros))
        self.eps_place = eps_place
        self.zero_centred = zero_centred
        self.rounding = rounding
        self.output_dtype = output_dtype
        self.fraction = fraction
        self.reset_parameters()
        keep_called(self)

    def reset_parameters(self) -> None:
        """Weight 1 (0 where zero_centred), bias 0."""
        super().reset_parameters()
        if self.zero_centred and self.weight is not None:
            nn.init.zeros_(self.weight)
        bias = self._parameters.get("bias")  # not there yet while torch's constructor runs
        if bias is not None:
            nn.init.zeros_(bias)

    def forward(self, x: Tensor) -> Tensor:
        """Normalise; see the class for shapes."""
        if self._plain() and self.eps is not None:
            y = direct("rms_norm", x, self._parameters, self.eps)
            if y is not None:
                return y
        return functional.rms_norm(
            x,
            self.normalized_shape,
            self.weight,
            self.eps,
            bias=self.bias,
            eps_place=self.eps_place,
            zero_centred=self.zero_centred,
            rounding=self.rounding,
            output_dtype=self.output_dtype,
            fraction=self.fraction,
        )

    def _plain(self) -> bool:
        """Whether this is torch's RMSNorm over one axis."""
        return (
            len(self.normalized_shape) == 1
            and self.eps_place == "inside"
            and not self.zero_centred
            and self.rounding == "once"
            and self.output_dtype == "input"
            and self.fraction == 1.0
        )

    def extra_repr(self) -> str:
        """torch's text, what eps=None computes with, and the options that are set."""
        text = super().extra_repr()
        if self.eps is None:
            values = [f"{functional.default_eps(d):.3g}" for d in (torch.float32, torch.float64)]
            used = f"eps=None (computes with {values[0]}, for float64 {values[1]})"
            text = text.replace("eps=None", used)
        if self.bias is not None:
            text += ", bias=True"
        names = ("eps_place", "zero_centred", "rounding", "output_dtype", "fraction")
        return text + more_options(self, names)
