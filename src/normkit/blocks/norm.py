"""Any norm of the registry, standing on tokens of shape (B, T, D)."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from normkit import layers
from normkit.errors import OptionError, sentence
from normkit.spec import NormEntry, NormSpec, norm_entry

# What a norm reads besides the token that it normalises.
Reach = Literal["token", "all_rows", "real_rows"]


class TokenNorm(nn.Module):
    """A norm called as ``norm(x_BTD, valid_BT)``, whatever its own calling convention.

    ===========  =====================================================================
    reach        call
    ===========  =====================================================================
    token        ``norm(x_BTD)``: every token by itself, so padding cannot matter
    all_rows     ``norm(x_ND)`` with N = B T: pads count as samples (the naive
                 BatchNorm that articles compare with)
    real_rows    ``norm(x_BTD, valid_BT)``: pads are left out of the statistics
    ===========  =====================================================================

    Args:
        norm: the layer.
        reach: which of the three rows above.

    Example:
        >>> import torch
        >>> TokenNorm(torch.nn.LayerNorm(8), "token")(torch.ones(2, 3, 8)).shape
        torch.Size([2, 3, 8])
    """

    def __init__(self, norm: nn.Module, reach: Reach) -> None:
        super().__init__()
        self.norm = norm
        self.reach = reach

    def forward(self, x_BTD: Tensor, valid_BT: Tensor | None = None) -> Tensor:
        """Normalise; ``valid_BT`` is True at real tokens, None where every token is real."""
        y: Tensor
        if self.reach == "real_rows":
            y = self.norm(x_BTD, valid_BT)
        elif self.reach == "all_rows":
            y = self.norm(x_BTD.reshape(-1, x_BTD.shape[-1])).reshape(x_BTD.shape)
        else:
            y = self.norm(x_BTD)
        return y

    def extra_repr(self) -> str:
        """Show the reach beside the layer."""
        return f"reach={self.reach!r}"


def make_norm(name: str, width: int) -> TokenNorm:
    """Build the registry's norm ``name`` over tokens of ``width`` features.

    Args:
        name: a name of ``normkit.spec.NORMS``.
        width: D, the size of the last axis.

    Raises:
        OptionError: no norm has this name, or the norm has no meaning on tokens.

    Example:
        >>> make_norm("batch_norm", 8).reach
        'all_rows'
    """
    entry = norm_entry(name)
    reach = _reach(entry)
    layer: type[nn.Module] = getattr(layers, entry.layers[0])
    return TokenNorm(layer(width), reach)


def _reach(entry: NormEntry) -> Reach:
    """Read off the spec what the statistics of one token depend on."""
    specs = (entry.spec,) if isinstance(entry.spec, NormSpec) else entry.spec
    shared = [spec for spec in specs if spec.stats.train != "own"]
    if shared:
        return "real_rows" if all(spec.stats.masked for spec in shared) else "all_rows"
    axes = {role for spec in specs for role in spec.over}
    if axes <= {"feature", "group"}:
        return "token"
    rule = "a norm on tokens shares statistics over features or over the batch"
    came = f"{entry.name!r} shares them over {', '.join(sorted(axes))}"
    raise OptionError(sentence("make_norm", rule, came))
