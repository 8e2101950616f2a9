"""Any norm of the registry, standing on tokens of shape (B, T, D)."""

from __future__ import annotations

from functools import partial
from typing import Literal

from torch import Tensor, nn

from normkit import layers
from normkit.errors import OptionError, choices, sentence
from normkit.spec import NORMS, NormEntry, NormSpec, norm_entry

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
        name: a name of ``normkit.spec.NORMS``, one of :func:`token_norms`.
        width: D, the size of the last axis.

    Raises:
        OptionError: no norm has this name, or the norm has no meaning on tokens alone.

    Example:
        >>> make_norm("batch_norm", 8).reach
        'all_rows'
    """
    check_token_norm("make_norm", name)
    entry = norm_entry(name)
    build = getattr(layers, entry.layers[0])
    if name == "channel_layer_norm":
        build = partial(build, channel_axis=-1)
    return TokenNorm(build(width), _reach(entry))


def token_norms() -> tuple[str, ...]:
    """Name the norms of the registry that can stand on tokens alone.

    Example:
        >>> token_norms()[:3]
        ('layer_norm', 'rms_norm', 'batch_norm')
    """
    return tuple(name for name, entry in NORMS.items() if _obstacle(entry) is None)


def check_token_norm(who: str, name: str) -> None:
    """Raise unless the registry's norm ``name`` can stand on tokens alone.

    Raises:
        OptionError: no norm has this name, or the norm has no meaning on tokens alone.

    Example:
        >>> check_token_norm("make_norm", "rms_norm")
    """
    obstacle = _obstacle(norm_entry(name))
    if obstacle is not None:
        rule = f"on tokens norm must be {choices(token_norms())}"
        raise OptionError(sentence(who, rule, f"{name!r} {obstacle}"))


def has_gain(name: str) -> bool:
    """Say whether the registry's norm ``name`` multiplies by a learned weight.

    Example:
        >>> has_gain("rms_norm"), has_gain("no_norm")
        (True, False)
    """
    return _specs(norm_entry(name))[-1].gain.form != "none"


def _specs(entry: NormEntry) -> tuple[NormSpec, ...]:
    return (entry.spec,) if isinstance(entry.spec, NormSpec) else entry.spec


def _obstacle(entry: NormEntry) -> str | None:
    """Say what keeps a norm from standing on tokens of shape (B, T, D) alone; None: nothing."""
    for spec in _specs(entry):
        if spec.gain.conditional or spec.gain.gate != "none":
            return "needs a second input"
        # Statistics of a whole batch are taken over tokens; those of one sample need its own axes.
        foreign = [role for role in spec.over if role in ("space", "head")]
        if foreign and spec.stats.train == "own":
            return f"shares statistics over {' and '.join(spec.over)}"
    return None


def _reach(entry: NormEntry) -> Reach:
    """Read off the spec what the statistics of one token depend on."""
    shared = [spec for spec in _specs(entry) if spec.stats.train != "own"]
    if not shared:
        return "token"
    return "real_rows" if all(spec.stats.masked for spec in shared) else "all_rows"
