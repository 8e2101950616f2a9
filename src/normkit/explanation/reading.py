"""How a shape is read: which axis is the batch, which are positions or space, which the features.

Everything is taken from the spec and from the signature of the layer, so a norm that is added to
the registry is read without a line here.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace

from normkit.errors import OptionError, ShapeError, sentence
from normkit.explanation.numbers import listed
from normkit.explanation.signature import accepts, default_axis, kind, stages
from normkit.spec import NormEntry, validate
from normkit.spec.norm import Role

WHO = "explain"
_PLACES = {1: "T", 2: "HW", 3: "DHW"}
_DEFAULT_SHAPES = {"tokens": (2, 3, 4), "channels": (2, 4, 2, 3), "heads": (2, 2, 3, 4)}
_DEFAULT_GROUPS = 2


@dataclass(frozen=True, kw_only=True)
class Axis:
    """One axis of the tensor: its letter, what it is, its size."""

    letter: str
    role: Role
    size: int


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a person may set about a norm; None takes the layer's default."""

    shape: tuple[int, ...] | None = None
    normalized_shape: tuple[int, ...] | None = None
    groups: int | None = None
    channel_axis: int | None = None


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A shape, read.

    Attributes:
        axes: in order.
        features: numbers of the axes that a norm over features normalises (the channel axis, the
            last axis, or as many last axes as ``normalized_shape`` has).
        groups: number of groups that the feature axis is cut into; 1 is no cut.
    """

    axes: tuple[Axis, ...]
    features: tuple[int, ...]
    groups: int = 1

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of all axes."""
        return tuple(axis.size for axis in self.axes)

    @property
    def letters(self) -> str:
        """The axes as ``(B, T, D)``."""
        return f"({', '.join(axis.letter for axis in self.axes)})"

    @property
    def numel(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def feature_shape(self) -> tuple[int, ...]:
        """Sizes of the feature axes."""
        return tuple(self.axes[axis].size for axis in self.features)

    @property
    def places(self) -> tuple[int, ...]:
        """Numbers of the axes that are positions or space, and no features."""
        roles = ("position", "space")
        found = (i for i, axis in enumerate(self.axes) if axis.role in roles)
        return tuple(i for i in found if i not in self.features)


def read(entry: NormEntry, options: Options) -> Reading:
    """Read a shape for a norm.

    Raises:
        ShapeError, OptionError: the shape or an option does not fit; the sentence says what to
            type.

    Example:
        >>> from normkit.spec import norm_entry
        >>> reading = read(norm_entry("layer_norm"), Options(shape=(4, 2, 3)))
        >>> reading.letters, reading.feature_shape
        ('(B, T, D)', (3,))
    """
    how = kind(entry)
    if options.channel_axis is not None:
        _refuse_channel_axis(entry)
        how = "tokens" if options.channel_axis == -1 else "channels"
    shape = _DEFAULT_SHAPES[how] if options.shape is None else options.shape
    _check_shape(entry, shape, how)
    axis = _feature_axis(entry, shape, options.channel_axis)
    count = 1
    if options.normalized_shape is not None:
        count = len(_checked_normalized(entry, shape, options.normalized_shape))
    features = (axis,) if count == 1 else tuple(range(len(shape) - count, len(shape)))
    reading = Reading(axes=_axes(shape, axis, how), features=features)
    _check_places(entry, reading)
    return replace(reading, groups=_groups(entry, reading, options))


def _axes(shape: Sequence[int], feature: int, how: str) -> tuple[Axis, ...]:
    middle = [i for i in range(1, len(shape)) if i != feature]
    role: Role = "position" if len(middle) == 1 or how == "heads" else "space"
    letters = _PLACES.get(len(middle), [f"S{i + 1}" for i in range(len(middle))])
    named = dict(zip(middle, letters, strict=True)) if middle else {}
    axes = []
    for i, size in enumerate(shape):
        if i == feature:
            letter = {"tokens": "D", "channels": "C", "heads": "d"}[how]
            axes.append(Axis(letter=letter, role="feature", size=size))
        elif i == 0:
            axes.append(Axis(letter="B", role="batch", size=size))
        elif how == "heads":
            head = i == 1
            letter = "H" if head else "T"
            axes.append(Axis(letter=letter, role="head" if head else "position", size=size))
        else:
            axes.append(Axis(letter=named[i], role=role, size=size))
    return tuple(axes)


def _check_shape(entry: NormEntry, shape: tuple[int, ...], how: str) -> None:
    who = entry.title
    if any(size < 1 for size in shape):
        raise ShapeError(sentence(who, "every axis of x must hold an element", f"x is {shape}"))
    if how == "heads" and len(shape) != 4:
        rule = "q and k must be (B, H, T, d)"
        fix = "Try shape=(2, 8, 16, 64): batch, heads, positions, features of a head"
        raise ShapeError(sentence(who, rule, f"x is {shape}", fix))
    least = {"tokens": 1, "channels": 2, "heads": 4}[how]
    if len(shape) < least:
        example = ", ".join(map(str, (8, *shape)))
        rule = "x must be (B, C, ...)"
        raise ShapeError(sentence(who, rule, f"x is {shape}", f"Try shape=({example})"))


def _check_places(entry: NormEntry, reading: Reading) -> None:
    most = len(entry.layers)
    if most > 1 and len(reading.places) > most:
        rule = f"x has at most {most} axes beside batch and channels"
        raise ShapeError(sentence(entry.title, rule, f"x is {reading.shape}"))
    over = {role for spec in stages(entry.spec) for role in spec.over}
    if over and over <= {"space", "position"} and not reading.places:
        rule = "x needs an axis of space, (B, C, ...)"
        fix = f"Try shape={(*reading.shape, 4)}"
        raise ShapeError(sentence(entry.title, rule, f"x is {reading.shape}", fix))


def _feature_axis(entry: NormEntry, shape: tuple[int, ...], given: int | None) -> int:
    axis = default_axis(entry) if given is None else given
    if not -len(shape) <= axis < len(shape):
        rule = f"channel_axis must lie in [{-len(shape)}, {len(shape) - 1}]"
        raise OptionError(sentence(WHO, rule, f"channel_axis is {axis}"))
    axis %= len(shape)
    if axis == 0 and len(shape) > 1:
        rule = "axis 0 is the batch"
        raise OptionError(sentence(WHO, rule, "channel_axis is 0", "Try channel_axis=1 or -1"))
    return axis


def _refuse_channel_axis(entry: NormEntry) -> None:
    if "channel_axis" not in accepts(entry):
        rule = (
            f"channel_axis belongs to norms with channels; {entry.title} normalises the last axes"
        )
        raise OptionError(sentence(WHO, rule, "channel_axis is given", "Leave it out"))


def _checked_normalized(
    entry: NormEntry, shape: tuple[int, ...], normalized_shape: tuple[int, ...]
) -> tuple[int, ...]:
    if "normalized_shape" not in accepts(entry):
        rule = "normalized_shape belongs to layers that take it, such as LayerNorm"
        came = f"{entry.layers[0]} has no such argument"
        raise OptionError(sentence(WHO, rule, came, "Leave it out"))
    return validate(shape, normalized_shape, who=entry.title)


def as_tokens(entry: NormEntry, options: Options) -> Options:
    """The same options for tokens (B, T, D), the last axis holding the features.

    Example:
        >>> from normkit.spec import norm_entry
        >>> entry = norm_entry("batch_norm")
        >>> read(entry, as_tokens(entry, Options(shape=(8, 2, 3)))).letters
        '(B, T, D)'
    """
    if options.shape is None:
        small = options.groups is None and _usual_groups(entry) > 1
        groups = _DEFAULT_GROUPS if small else options.groups
        options = replace(options, shape=_DEFAULT_SHAPES["tokens"], groups=groups)
    return replace(options, channel_axis=-1) if kind(entry) == "channels" else options


def _usual_groups(entry: NormEntry) -> int:
    return max((spec.groups or 1 for spec in stages(entry.spec)), default=1)


def _groups(entry: NormEntry, reading: Reading, options: Options) -> int:
    if "groups" not in accepts(entry):
        if options.groups is None:
            return 1
        rule = "groups belongs to norms over groups of channels"
        raise OptionError(sentence(WHO, rule, f"{entry.title} has none", "Leave it out"))
    groups = options.groups
    if groups is None:
        groups = _usual_groups(entry)
        if options.shape is None and groups > 1:
            groups = _DEFAULT_GROUPS
    channels = math.prod(reading.feature_shape)
    if groups < 1 or channels % groups:
        fits = [str(g) for g in range(1, channels + 1) if channels % g == 0]
        rule = f"groups must divide the {channels} channels"
        few = fits if len(fits) <= 4 else [*fits[:3], fits[-1]]
        fix = f"Try groups={listed(few).replace(' and ', ' or ')}"
        raise OptionError(sentence(entry.title, rule, f"groups is {groups}", fix))
    return groups


def as_options(
    shape: Sequence[int] | None,
    normalized_shape: Sequence[int] | int | None,
    groups: int | None,
    channel_axis: int | None,
) -> Options:
    """Turn what a person gave into options; a wrong type is a sentence."""

    def sizes(name: str, value: Sequence[int] | int | None) -> tuple[int, ...] | None:
        if value is None:
            return None
        try:
            return tuple(map(operator.index, [value] if isinstance(value, int) else value))
        except TypeError:
            rule = f"{name} must be integers, such as (4, 2, 3)"
            raise ShapeError(sentence(WHO, rule, f"{name} is {value!r}")) from None

    for name, number in (("groups", groups), ("channel_axis", channel_axis)):
        if number is not None and (isinstance(number, bool) or not isinstance(number, int)):
            rule = f"{name} must be an integer"
            raise OptionError(sentence(WHO, rule, f"{name} is {number!r}"))
    wanted = sizes("shape", shape)
    if wanted == ():
        raise ShapeError(sentence(WHO, "x must have an axis", "shape is ()", "Try shape=(4, 2, 3)"))
    return Options(
        shape=wanted,
        normalized_shape=sizes("normalized_shape", normalized_shape),
        groups=groups,
        channel_axis=channel_axis,
    )
