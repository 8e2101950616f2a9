"""How numbers and lists of words are written in sentences and formulas."""

from __future__ import annotations

import re
from collections.abc import Sequence


def short(value: float, digits: int = 4) -> str:
    """Write a number briefly, powers of ten as people type them.

    Example:
        >>> short(1e-05), short(1.861209718), short(12), short(0.1)
        ('1e-5', '1.861', '12', '0.1')
    """
    return re.sub(r"e([+-])0*(\d+)$", lambda m: f"e{m[1].strip('+')}{m[2]}", f"{value:.{digits}g}")


def counted(count: int, noun: str) -> str:
    """Write a count with its noun, thousands apart.

    Example:
        >>> counted(1, "statistic"), counted(16384, "element")
        ('1 statistic', '16,384 elements')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def listed(words: Sequence[str]) -> str:
    """Join words as in a sentence.

    Example:
        >>> listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])
        ('a', 'a and b', 'a, b and c')
    """
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def shape_text(shape: Sequence[int]) -> str:
    """Write a shape.

    Example:
        >>> shape_text((4, 2, 3)), shape_text((3,)), shape_text(())
        ('(4, 2, 3)', '(3)', '(): one number')
    """
    return f"({', '.join(map(str, shape))})" if shape else "(): one number"
