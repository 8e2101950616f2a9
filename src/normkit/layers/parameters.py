"""Parameters by name, there or not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

Shape = int | tuple[int, ...]


def register_parameters(
    module: nn.Module,
    shapes: Mapping[str, Shape | None],
    device: Any = None,
    dtype: torch.dtype | None = None,
) -> None:
    """Register a parameter of each shape, to be filled by ``reset_parameters``.

    A name whose shape is None is registered as None: code that reads ``norm.bias`` finds it.
    """
    for name, shape in shapes.items():
        values = None if shape is None else torch.empty(shape, device=device, dtype=dtype)
        module.register_parameter(name, None if values is None else nn.Parameter(values))


def weight_and_bias(shape: Shape, *, weight: bool, bias: bool) -> dict[str, Shape | None]:
    """The shapes of a norm's weight and bias; a bias comes with a weight only."""
    return {"weight": shape if weight else None, "bias": shape if weight and bias else None}
