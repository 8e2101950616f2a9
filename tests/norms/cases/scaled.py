"""ScaleNorm, QK-norm, DynamicTanh, DynamicErf."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

import normkit
from tests.norms.cases.case import Case, built


class OfOneTensor(nn.Module):
    """QKNorm as a layer of one input: the first ``queries`` slices of an axis are q, the rest k."""

    def __init__(self, queries: int, axis: int, *args: Any, **options: Any) -> None:
        super().__init__()
        self.norm = normkit.QKNorm(*args, **options)
        self.queries = queries
        self.axis = axis

    def reset_parameters(self) -> None:
        """Those of the norm."""
        self.norm.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        """Both results, side by side as they came."""
        parts = (self.queries, x.shape[self.axis] - self.queries)
        q, k = self.norm(*x.split(parts, self.axis))
        with torch.autocast("cpu", enabled=False):  # it refuses to join the other half dtype
            return torch.cat((q, k), self.axis)


def _token(name: str, layer: Any, *args: Any, op: str, **options: Any) -> Case:
    """A layer over the last axes of x (2, 2, 4)."""
    first = args[0]
    return Case(
        name=name,
        build=built(name, layer, *args, **options),
        shape=(2, 2, 4),
        row=first if isinstance(first, tuple) else (first,),
        op=op,
    )


def _heads(name: str, op: str, **options: Any) -> Case:
    """QKNorm over heads of 4 features; the axis before them holds one query and one key."""
    return Case(
        name=name,
        build=built(name, OfOneTensor, 1, -2, 4, **options),
        shape=(2, 2, 4),
        row=(2, 4),
        op=op,
    )


def _projection(name: str, op: str, **options: Any) -> Case:
    """QKNorm over 2 heads of queries and 1 of keys, 2 features each, 2 positions."""
    return Case(
        name=name,
        build=built(name, OfOneTensor, 2, -3, 2, 2, 1, over="projection", **options),
        shape=(2, 3, 2, 2),
        row=(3, 2, 2),
        op=op,
    )


CASES: tuple[Case, ...] = (
    _token("scale_norm", normkit.ScaleNorm, 4, op="scale_norm"),
    _token("scale_norm_clamped", normkit.ScaleNorm, 4, eps=1.6, op="scale_norm"),
    _token(
        "scale_norm_outside",
        normkit.ScaleNorm,
        4,
        eps=0.5,
        eps_place="outside",
        zero_centred=True,
        op="scale_norm",
    ),
    _token("dynamic_tanh", normkit.DynamicTanh, 4, op="dynamic_tanh"),
    _token("dynamic_tanh_two_axes", normkit.DynamicTanh, (2, 4), bias=False, op="dynamic_tanh"),
    Case(
        name="dynamic_tanh_image",
        build=built("dynamic_tanh_image", normkit.DynamicTanh, 3, channel_axis=1),
        shape=(2, 3, 2, 2),
        op="dynamic_tanh",
        image=True,
    ),
    _token("dynamic_erf", normkit.DynamicErf, 4, shift=0.25, op="dynamic_erf"),
    _heads("qk_norm", "rms_norm"),
    _heads("qk_norm_layer", "layer_norm", kind="layer", bias=True, zero_centred=True),
    _heads("qk_norm_l2", "scale_norm", kind="l2"),
    _projection("qk_norm_projection", "rms_norm"),
)
