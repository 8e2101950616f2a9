"""``explain``: what a name of the registry does, on a shape or at a depth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

from normkit.errors import OptionError, sentence
from normkit.explanation.beside import SideBySide
from normkit.explanation.explanation import Explanation
from normkit.explanation.norm import explain_norm
from normkit.explanation.numbers import listed
from normkit.explanation.placement import DEPTH, explain_placement
from normkit.explanation.reading import Options, as_options, as_tokens
from normkit.explanation.signature import accepts, kind
from normkit.spec import NORMS, PLACEMENTS, NormEntry
from normkit.spec.registry import unknown_name


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of thing that can be explained: its table of names, and the options it takes."""

    noun: str
    table: Mapping[str, object]
    options: tuple[str, ...]


KINDS: tuple[Kind, ...] = (
    Kind(
        noun="norm",
        table=NORMS,
        options=("shape", "normalized_shape", "groups", "channel_axis"),
    ),
    Kind(noun="placement", table=PLACEMENTS, options=("depth",)),
)


def explain(
    *names: str,
    shape: Sequence[int] | None = None,
    normalized_shape: Sequence[int] | int | None = None,
    groups: int | None = None,
    channel_axis: int | None = None,
    depth: int | None = None,
) -> Explanation:
    """Explain a norm or a placement; several names of one kind are put side by side.

    Args:
        names: names of ``normkit.NORMS`` or of ``normkit.PLACEMENTS``.
        shape: of x, for norms. Norms of tokens read (..., D), norms of images (B, C, ...), QK-norm
            (B, H, T, d). Without it a small tensor is taken.
        normalized_shape: the last axes that share statistics, for LayerNorm and RMSNorm.
        groups: of channels, for norms over groups.
        channel_axis: where the channels stand; -1 for tokens.
        depth: layers, for placements (12).

    Returns:
        What prints as text, gives ``data()`` and draws ``svg()``.

    Raises:
        OptionError, ShapeError: with a sentence that says what to type.

    Example:
        >>> explained = explain("layer_norm", shape=(4, 2, 3), normalized_shape=(2, 3))
        >>> explained.stages[0].sharing.count
        4
    """
    if not names:
        rule = "explain needs the name of a norm or of a placement"
        raise OptionError(sentence("explain", rule, "there is none", "Try explain layer_norm"))
    found = _kind(names)
    given = {
        "shape": shape,
        "normalized_shape": normalized_shape,
        "groups": groups,
        "channel_axis": channel_axis,
        "depth": depth,
    }
    _refuse_options(found, names, given)
    made: tuple[Explanation, ...]
    if found.table is PLACEMENTS:
        layers = DEPTH if depth is None else depth
        made = tuple(explain_placement(PLACEMENTS[name], layers) for name in names)
    else:
        options = as_options(shape, normalized_shape, groups, channel_axis)
        made = tuple(explain_norm(NORMS[name], one) for name, one in _for_each(names, options))
    return made[0] if len(made) == 1 else _beside(made)


def _kind(names: Sequence[str]) -> Kind:
    """The one kind that all names are of."""
    kinds = [_kind_of(name) for name in names]
    if any(one is not kinds[0] for one in kinds):
        rule = "things of one kind stand side by side"
        came = listed([f"{name} is a {one.noun}" for name, one in zip(names, kinds, strict=True)])
        raise OptionError(sentence("explain", rule, came, "Explain them one by one"))
    return kinds[0]


def _kind_of(name: str) -> Kind:
    for one in KINDS:
        if name in one.table:
            return one
    nouns = " or ".join(one.noun for one in KINDS)
    every = {key: None for one in KINDS for key in one.table}
    raise OptionError(unknown_name(nouns, name, every))


def _refuse_options(found: Kind, names: Sequence[str], given: Mapping[str, object]) -> None:
    for option, value in given.items():
        if value is not None and option not in found.options:
            (owner,) = (one.noun for one in KINDS if option in one.options)
            rule = f"{option} is an option of {owner}s"
            came = f"{names[0]} is a {found.noun}"
            fix = f"Try {listed(found.options).replace(' and ', ' or ')}, or leave it out"
            raise OptionError(sentence("explain", rule, came, fix))


def _for_each(names: Sequence[str], options: Options) -> list[tuple[str, Options]]:
    """Side by side norms read one tensor alike: as tokens where their own layouts differ."""
    layouts = {kind(NORMS[name]) for name in names} - {"heads"}
    mixed = len(layouts) > 1 and options.channel_axis is None
    found = []
    for name in names:
        one = _its_own(NORMS[name], options) if len(names) > 1 else options
        if mixed and kind(NORMS[name]) != "heads":
            one = as_tokens(NORMS[name], one)
        found.append((name, one))
    if len(names) > 1:
        _refuse_unused(names, options)
    return found


def _its_own(entry: NormEntry, options: Options) -> Options:
    """Leave out what only a neighbour takes."""
    foreign = {field.name for field in fields(options)} - accepts(entry)
    return replace(options, **dict.fromkeys(foreign))


def _refuse_unused(names: Sequence[str], options: Options) -> None:
    taken = frozenset().union(*(accepts(NORMS[name]) for name in names))
    for field in fields(options):
        if getattr(options, field.name) is not None and field.name not in taken:
            rule = f"{field.name} must be an option of one of the norms"
            came = f"neither {' nor '.join(names)} has it"
            raise OptionError(sentence("explain", rule, came, "Leave it out"))


def _beside(made: tuple[Explanation, ...]) -> SideBySide:
    return SideBySide(
        name=" ".join(one.name for one in made),
        title=" | ".join(one.title for one in made),
        source="; ".join(one.source for one in made),
        explanations=made,
    )
