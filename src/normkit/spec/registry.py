"""The registry: every norm and every placement that normkit knows, by name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from normkit.errors import OptionError, choices
from normkit.spec.entries import NormEntry, PlacementEntry
from normkit.spec.norms import NORM_TABLE
from normkit.spec.placements import PLACEMENT_TABLE

NORMS: Mapping[str, NormEntry] = {entry.name: entry for entry in NORM_TABLE}
PLACEMENTS: Mapping[str, PlacementEntry] = {entry.name: entry for entry in PLACEMENT_TABLE}

# Ops that do more than one norm: what stands before it in a residual stack is inside.
FUSED_OPS = (
    "add_layer_norm",
    "add_rms_norm",
    "dropout_add_layer_norm",
    "dropout_add_rms_norm",
)


def norm_entry(name: str) -> NormEntry:
    """Look a norm up by name.

    Raises:
        OptionError: no norm has this name; the sentence lists those that exist.

    Example:
        >>> norm_entry("rms_norm").title
        'RMSNorm'
    """
    if name not in NORMS:
        raise OptionError(unknown_name("norm", name, NORMS))
    return NORMS[name]


def placement_entry(name: str) -> PlacementEntry:
    """Look a placement up by name.

    Raises:
        OptionError: no placement has this name; the sentence lists those that exist.

    Example:
        >>> placement_entry("pre").spec.final_norm
        True
    """
    if name not in PLACEMENTS:
        raise OptionError(unknown_name("placement", name, PLACEMENTS))
    return PLACEMENTS[name]


def unknown_name(kind: str, name: str, table: Mapping[str, object]) -> str:
    """Say that ``table`` has no such name, which it has, and which was meant.

    Example:
        >>> unknown_name("norm", "rms_nrom", {"rms_norm": None})
        "norm must be 'rms_norm'; got 'rms_nrom'. Did you mean 'rms_norm'?"
    """
    text = f"{kind} must be {choices(table)}; got {name!r}."
    close = difflib.get_close_matches(name, table, n=1)
    return f"{text} Did you mean {close[0]!r}?" if close else text
