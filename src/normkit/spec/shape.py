"""Shape checks that need no tensor: the sentence that a wrong normalized_shape gets."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import SupportsIndex

from normkit.errors import ShapeError, sentence


def as_shape(
    who: str, normalized_shape: SupportsIndex | Iterable[SupportsIndex]
) -> tuple[int, ...]:
    """Turn an int, tuple, list, ``torch.Size`` or numpy integer into a tuple of Python ints.

    Example:
        >>> as_shape("LayerNorm", 8), as_shape("LayerNorm", [2, 3])
        ((8,), (2, 3))
    """
    try:
        if isinstance(normalized_shape, Iterable):
            shape = tuple(operator.index(size) for size in normalized_shape)
        else:
            shape = (operator.index(normalized_shape),)
    except TypeError:
        rule = "normalized_shape must be an integer or a sequence of integers"
        raise ShapeError(sentence(who, rule, f"it is {normalized_shape!r}")) from None
    if not shape:
        rule = "normalized_shape must name at least one axis"
        raise ShapeError(sentence(who, rule, "it is ()", "Try normalized_shape=x.shape[-1]"))
    if min(shape) < 1:
        rule = "every size in normalized_shape must be at least 1"
        raise ShapeError(sentence(who, rule, f"it is {shape}"))
    return shape


def validate(
    shape: Iterable[SupportsIndex],
    normalized_shape: SupportsIndex | Iterable[SupportsIndex],
    *,
    who: str = "LayerNorm",
) -> tuple[int, ...]:
    """Check, before any tensor exists, that ``normalized_shape`` is the end of ``shape``.

    Args:
        shape: shape of x, any number of axes.
        normalized_shape: sizes of the last k axes, which share one mean and variance.
        who: name that opens the sentence.

    Returns:
        ``normalized_shape`` as a tuple of ints.

    Raises:
        ShapeError: the last k axes of ``shape`` differ; the sentence says what to type.

    Example:
        >>> validate((4, 2, 3), [2, 3])
        (2, 3)
        >>> validate((4, 3, 2), (2, 3))
        Traceback (most recent call last):
        ...
        normkit.errors.ShapeError: LayerNorm: the last 2 axes of x must be (2, 3); x is (4, 3, 2). \
Try normalized_shape=(3, 2), or x.transpose(-1, -2).
    """
    wanted = as_shape(who, normalized_shape)
    have = tuple(operator.index(size) for size in shape)
    k = len(wanted)
    if have[-k:] == wanted and len(have) >= k:
        return wanted
    axes = "last axis" if k == 1 else f"last {k} axes"
    rule = f"the {axes} of x must be {wanted[0] if k == 1 else wanted}"
    raise ShapeError(sentence(who, rule, f"x is {have}", _remedy(have, wanted)))


def _remedy(have: tuple[int, ...], wanted: tuple[int, ...]) -> str:
    k = len(wanted)
    if len(have) < k:
        more = f"Give x at least {k} {'axis' if k == 1 else 'axes'}"
        return f"{more}, or a normalized_shape of at most {len(have)}" if have else more
    last = have[-k:]
    tries = [f"normalized_shape={last[0] if k == 1 else last}"] if min(last) > 0 else []
    move = _move(have, wanted)
    if move:
        tries.append(move)
    return "Try " + ", or ".join(tries) if tries else ""


def _move(have: Sequence[int], wanted: tuple[int, ...]) -> str:
    """Name the one transposition that brings the wanted sizes to the end, if there is one."""
    n = len(have)
    for first in range(n - 1, -1, -1):
        for second in range(first - 1, -1, -1):
            swapped = list(have)
            swapped[first], swapped[second] = swapped[second], swapped[first]
            if tuple(swapped[-len(wanted) :]) == wanted:
                return f"x.transpose({first - n}, {second - n})"
    return ""
