"""Nested tensors: sequences of unlike length in one tensor, which token norms take one by one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, cast

import torch
from torch import Tensor

P = ParamSpec("P")
TokenFunction = Callable[Concatenate[Tensor, P], Tensor]


def over_nested(function: TokenFunction[P]) -> TokenFunction[P]:
    """Let a norm that treats every token by itself take nested tensors of either layout.

    torch's Transformer encoder makes them of a padded batch in evaluation.
    """

    def wrapper(x: Tensor, *args: P.args, **kwargs: P.kwargs) -> Tensor:
        if not getattr(x, "is_nested", False):
            return function(x, *args, **kwargs)
        return _each(x, lambda t: function(t, *args, **kwargs))

    functools.update_wrapper(wrapper, function)
    return cast(TokenFunction[P], wrapper)  # x may be given by name too


def _each(x: Any, function: Callable[[Tensor], Tensor]) -> Tensor:
    if x.layout == torch.jagged:
        y = function(x.values())
        jagged: Tensor = torch.nested.nested_tensor_from_jagged(y, x.offsets(), x.lengths())
        return jagged
    return torch.nested.as_nested_tensor([function(t) for t in x.unbind()])
