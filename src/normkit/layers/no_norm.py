"""NoNorm: the identity, for comparisons without a norm."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from normkit.layers.fast_path import keep_called


class NoNorm(nn.Module):
    """``y = x``: stands where a norm would, and takes any norm's arguments.

    Code that reads a norm's ``weight``, ``bias`` and ``eps`` finds None, None and 0.

    Shape:
        x of any shape and dtype -> x itself. Further arguments (a mask) are ignored.

    Example:
        >>> import torch
        >>> NoNorm(8, eps=1e-5)(torch.ones(2)).tolist()
        [1.0, 1.0]
    """

    eps = 0.0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Take and ignore the arguments of any norm."""
        super().__init__()
        self.register_parameter("weight", None)
        self.register_parameter("bias", None)
        keep_called(self)

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """Return x."""
        return x
