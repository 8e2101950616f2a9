"""LayerNorm, RMSNorm and the identity."""

from __future__ import annotations

from typing import Any

from torch import nn

import normkit
from tests.norms.cases.case import Case, built


def _token(name: str, layer: str, *args: Any, twin: bool = False, **options: Any) -> Case:
    """A norm over the last axes of x (2, 3, 2, 4)."""
    return Case(
        name=name,
        build=built(name, getattr(normkit, layer), *args, **options),
        shape=(2, 3, 2, 4),
        row=args[0] if isinstance(args[0], tuple) else (args[0],),
        op={"LayerNorm": "layer_norm", "RMSNorm": "rms_norm"}[layer],
        twin=built(name, getattr(nn, layer), *args, **options) if twin else None,
    )


CASES: tuple[Case, ...] = (
    _token("layer_norm", "LayerNorm", 4, twin=True),
    _token("layer_norm_two_axes", "LayerNorm", (2, 4), twin=True),
    _token("layer_norm_no_bias", "LayerNorm", 4, bias=False, twin=True),
    _token("layer_norm_plain", "LayerNorm", 4, elementwise_affine=False, twin=True),
    _token("layer_norm_outside", "LayerNorm", 4, eps=0.1, eps_place="outside"),
    _token("layer_norm_clamp", "LayerNorm", 4, eps=0.8, eps_place="clamp"),
    _token("layer_norm_zero_centred", "LayerNorm", 4, zero_centred=True),
    _token("rms_norm", "RMSNorm", 4, twin=True),
    _token("rms_norm_two_axes", "RMSNorm", (2, 4), eps=1e-6, twin=True),
    _token("rms_norm_plain", "RMSNorm", 4, elementwise_affine=False, twin=True),
    _token("rms_norm_outside", "RMSNorm", 4, eps=0.1, eps_place="outside", bias=True),
    _token("rms_norm_clamp", "RMSNorm", 4, eps=0.8, eps_place="clamp"),
    _token("rms_norm_zero_centred", "RMSNorm", 4, eps=1e-6, zero_centred=True),
    _token("rms_norm_fraction", "RMSNorm", 4, eps=1e-6, fraction=0.5),
    _token("rms_norm_before_gain", "RMSNorm", 4, eps=1e-6, rounding="before_gain"),
    Case(
        name="no_norm",
        build=built("no_norm", lambda **kwargs: normkit.NoNorm(4, **kwargs)),
        shape=(2, 3, 4),
        op=None,
        twin=lambda **kwargs: nn.Identity(),
    ),
)
