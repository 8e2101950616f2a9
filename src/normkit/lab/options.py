"""The options of a comparison: what the command line and the Python call both accept, checked."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from normkit.blocks import check_token_norm
from normkit.errors import OptionError, StateError, check_choice, sentence
from normkit.lab.config import DTYPES
from normkit.spec import placement_entry

T = TypeVar("T", str, int, float)

# One value, several, or several in one string with commas between: "layer_norm,rms_norm".
Values: TypeAlias = T | str | Iterable[T] | None


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the caller asked for; None takes the recipe's.

    Attributes:
        recipe: name of a recipe; None compares what the other options name.
        norm ... dtype: values of the axes of the grid.
        seeds: how many, from 0.
        steps: updates of each run.
        accumulate: pieces that a batch is cut into.
    """

    recipe: str | None = None
    text: str | None = None
    norm: tuple[str, ...] | None = None
    placement: tuple[str, ...] | None = None
    depth: tuple[int, ...] | None = None
    batch_size: tuple[int, ...] | None = None
    lr: tuple[float, ...] | None = None
    dtype: tuple[str, ...] | None = None
    seeds: int | None = None
    steps: int | None = None
    accumulate: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain data for ``recipe.json``."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Options:
        """The inverse of :meth:`to_dict`, also after JSON."""
        values: dict[str, Any] = dict(data)
        for name, value in values.items():
            values[name] = tuple(value) if isinstance(value, list) else value
        return cls(**values)


def make_options(
    *,
    recipe: str | None,
    text: object,
    norm: Values[str],
    placement: Values[str],
    depth: Values[int],
    batch_size: Values[int],
    lr: Values[float],
    dtype: Values[str],
    seeds: int | None,
    steps: int | None,
    accumulate: int | None,
) -> Options:
    """Check every option and bring it into one form.

    Raises:
        OptionError: one sentence for the first value that has no meaning.
    """
    options = Options(
        recipe=recipe,
        text=None if text is None else str(text),
        norm=_values("norm", norm, str),
        placement=_values("placement", placement, str),
        depth=_values("depth", depth, int),
        batch_size=_values("batch_size", batch_size, int),
        lr=_values("lr", lr, float),
        dtype=_values("dtype", dtype, str),
        seeds=_count("seeds", seeds),
        steps=_count("steps", steps),
        accumulate=_count("accumulate", accumulate),
    )
    _check_axes(options)
    return options


def merged(stored: Options, asked: Options) -> Options:
    """The options with which a stored comparison goes on.

    Only ``seeds`` may differ, and only grow: the runs there stay what they are, new ones join.

    Raises:
        StateError: another option has another value.
    """
    for field in dataclasses.fields(Options):
        before, now = getattr(stored, field.name), getattr(asked, field.name)
        grows = field.name == "seeds" and before is not None and now is not None and now > before
        if now is None or now == before or grows:
            continue
        rule = "resume goes on with the options that the folder was started with (seeds may grow)"
        came = f"{field.name} was {_shown(before)}, and {_shown(now)} came"
        raise StateError(sentence("compare", rule, came, "Leave it out, or choose another out"))
    return dataclasses.replace(stored, seeds=stored.seeds if asked.seeds is None else asked.seeds)


def positive(option: str, value: int) -> int:
    """Raise :class:`OptionError` unless the value is at least 1."""
    if value < 1:
        rule = f"{option} must be at least 1"
        raise OptionError(sentence("compare", rule, f"{option} is {value}"))
    return value


def _count(option: str, value: int | None) -> int | None:
    return None if value is None else positive(option, _one(option, value, int))


def _values(option: str, given: Values[T], kind: Callable[[Any], T]) -> tuple[T, ...] | None:
    """Bring one, several, or a string with commas into a tuple, each value once."""
    if given is None:
        return None
    parts: Iterable[object]
    if isinstance(given, str):
        parts = [part.strip() for part in given.split(",")]
    else:
        parts = given if isinstance(given, Iterable) else [given]
    values = tuple(dict.fromkeys(_one(option, part, kind) for part in parts))
    if not values or "" in values:
        rule = f"{option} must be one value or several with commas between"
        raise OptionError(sentence("compare", rule, f"it is {given!r}"))
    return values


def _one(option: str, value: object, kind: Callable[[Any], T]) -> T:
    try:
        result = kind(value)
    except (TypeError, ValueError):
        result = None
    if result is None or (kind is int and not isinstance(value, str) and result != value):
        what = {int: "a whole number", float: "a number"}.get(kind, "a name")  # type: ignore[call-overload]
        rule = f"{option} must be {what}"
        raise OptionError(sentence("compare", rule, f"{option} is {value!r}")) from None
    return result


def _check_axes(options: Options) -> None:
    for name in options.norm or ():
        check_token_norm("compare", name)
    for name in options.placement or ():
        placement_entry(name)
    for depth in options.depth or ():
        positive("depth", depth)
    for batch_size in options.batch_size or ():
        positive("batch_size", batch_size)
    for lr in options.lr or ():
        if not (lr > 0 and math.isfinite(lr)):
            rule = "lr must be a positive finite number"
            raise OptionError(sentence("compare", rule, f"lr is {lr:g}"))
    for dtype in options.dtype or ():
        check_choice("compare", "dtype", dtype, DTYPES)


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return "the recipe's" if value is None else str(value)
