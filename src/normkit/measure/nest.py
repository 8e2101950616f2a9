"""Tensors inside nested tuples, lists and dicts: list them, or map over them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor


def tensors(nest: object) -> list[Tensor]:
    """List the tensors of a nest in a fixed order; all else is left out.

    Example:
        >>> import torch
        >>> [t.item() for t in tensors({"a": (torch.tensor(1), "text"), "b": [torch.tensor(2)]})]
        [1, 2]
    """
    if isinstance(nest, Tensor):
        return [nest]
    if isinstance(nest, Mapping):
        return [t for value in nest.values() for t in tensors(value)]
    if isinstance(nest, (tuple, list)):
        return [t for value in nest for t in tensors(value)]
    return []


def map_tensors(function: Callable[[Tensor], Tensor], nest: Any) -> Any:
    """Copy a nest with ``function`` applied to its tensors; named tuples keep their type.

    Example:
        >>> import torch
        >>> map_tensors(lambda t: t + 1, [torch.tensor(1), "text"])
        [tensor(2), 'text']
    """
    if isinstance(nest, Tensor):
        return function(nest)
    if isinstance(nest, Mapping):
        return {key: map_tensors(function, value) for key, value in nest.items()}
    if isinstance(nest, (tuple, list)):
        values = [map_tensors(function, value) for value in nest]
        return type(nest)(*values) if hasattr(nest, "_fields") else type(nest)(values)
    return nest
