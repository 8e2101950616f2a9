"""Numbers and configurations as people write them; the terminal and the page share these words."""

from __future__ import annotations

import math
from collections.abc import Mapping

from normkit.spec import norm_entry, placement_entry

Value = str | int | float

_AXIS_NAMES = {"batch_size": "batch size", "lr": "learning rate"}


def axis_name(axis: str) -> str:
    """``batch_size`` as ``batch size``."""
    return _AXIS_NAMES.get(axis, axis)


def axis_value(axis: str, value: Value) -> str:
    """``layer_norm`` as ``LayerNorm``; numbers short."""
    if axis == "norm":
        return norm_entry(str(value)).title
    if axis == "placement":
        return placement_entry(str(value)).title
    return f"{value:g}" if isinstance(value, float) else str(value)


def place_words(place: Mapping[str, Value]) -> str:
    """A configuration in words.

    Example:
        >>> place_words({"norm": "rms_norm", "placement": "pre", "depth": 2, "batch_size": 32})
        'RMSNorm, Pre-norm, depth 2, batch size 32'
    """
    words = []
    for axis, value in place.items():
        text = axis_value(axis, value)
        words.append(text if axis in ("norm", "placement") else f"{axis_name(axis)} {text}")
    return ", ".join(words)


def signed(value: float) -> str:
    """A difference with its sign and three decimals, or three digits where it is small.

    Example:
        >>> signed(0.01234), signed(-1.5), signed(0.00002)
        ('+0.012', '-1.500', '+2e-05')
    """
    if value and abs(value) < 0.0005:
        return f"{value:+.1g}"
    return f"{value:+.3f}"


def range_words(low: float, high: float) -> str:
    """An interval; half a line where a side is infinite.

    Example:
        >>> range_words(-0.1, 0.25)
        '[-0.100, +0.250]'
    """
    if math.isinf(low) or math.isinf(high):
        return "[-inf, +inf]"
    return f"[{signed(low)}, {signed(high)}]"


def count(number: int, noun: str) -> str:
    """``1 seed``, ``3 seeds``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
