"""NoNorm: the identity, for comparisons without a norm."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn


class NoNorm(nn.Module):
    """``y = x``: stands where a norm would, and takes any norm's arguments.

    It registers ``weight`` and ``bias`` as None, so that code which reads them finds them.

    Shape:
        x of any shape and dtype -> x itself. Further arguments (a mask) are ignored.

    Example:
        >>> import torch
        >>> NoNorm(8, eps=1e-5)(torch.ones(2)).tolist()
        [1.0, 1.0]
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Take and ignore the arguments of any norm."""
        super().__init__()
        self.register_parameter("weight", None)
        self.register_parameter("bias", None)

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """Return x."""
        return x
