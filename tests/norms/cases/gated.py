"""Gated RMSNorm, adaptive LayerNorm and RMSNorm."""

from __future__ import annotations

from typing import Any

from torch import Tensor

import normkit
from tests.norms.cases.case import Case, built, seeded

CONDITION_WIDTH = 3


def a_gate(shape: tuple[int, ...]) -> tuple[Tensor, ...]:
    """A gate in the shape of x."""
    return (seeded(*shape),)


def per_sample(shape: tuple[int, ...]) -> tuple[Tensor, ...]:
    """A condition (B, 3)."""
    return (seeded(shape[0], CONDITION_WIDTH),)


def per_token(shape: tuple[int, ...]) -> tuple[Tensor, ...]:
    """A condition (B, T, 3)."""
    return (seeded(*shape[:2], CONDITION_WIDTH),)


def _gated(name: str, **options: Any) -> Case:
    """A gated RMSNorm over the last 4 features of x (2, 3, 4)."""
    return Case(
        name=name,
        build=built(name, normkit.GatedRMSNorm, 4, **options),
        shape=(2, 3, 4),
        op="gated_rms_norm",
        others=a_gate,
    )


def _adaptive(name: str, layer: str, condition: Any, **options: Any) -> Case:
    """An adaptive norm over the last 4 features of x (2, 3, 4), with no gate."""
    return Case(
        name=name,
        build=built(name, getattr(normkit, layer), 4, CONDITION_WIDTH, **options),
        shape=(2, 3, 4),
        op={"AdaptiveLayerNorm": "adaptive_layer_norm", "AdaptiveRMSNorm": "adaptive_rms_norm"}[
            layer
        ],
        others=condition,
    )


CASES: tuple[Case, ...] = (
    _gated("gated_rms_norm"),
    _gated("gated_rms_norm_before", gate_place="before", groups=2, bias=True),
    _gated(
        "gated_rms_norm_sigmoid",
        gate_function="sigmoid",
        zero_centred=True,
        groups=2,
        rounding="before_gain",
    ),
    _adaptive("adaptive_layer_norm", "AdaptiveLayerNorm", per_sample),
    _adaptive("adaptive_rms_norm", "AdaptiveRMSNorm", per_token, eps=0.1, activation="none"),
)
