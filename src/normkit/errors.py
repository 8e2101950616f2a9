"""One way to build an error sentence: the rule, what came, what to type."""

from __future__ import annotations

from collections.abc import Iterable


class NormkitError(Exception):
    """Base of every error that normkit raises on purpose; its text is a sentence for users."""


class ShapeError(NormkitError, ValueError):
    """A tensor, or a shape, does not fit the layer."""


class DtypeError(NormkitError, TypeError):
    """A dtype that the operation is not defined for."""


class OptionError(NormkitError, ValueError):
    """An option has a value that means nothing here."""


class ImplError(NormkitError, RuntimeError):
    """The implementation that was named cannot run here."""


class BuildError(NormkitError, RuntimeError):
    """The CPU kernels cannot be compiled here."""


class StateError(NormkitError, RuntimeError):
    """The call is right, but not in the state that the module or the transform is in."""


class DataError(NormkitError, ValueError):
    """A file or a text cannot be used for what was asked."""


class MissingExtraError(NormkitError, ImportError):
    """A call needs the packages of the extra ``normkit[cli]``, and one of them is missing."""


# Import names of the packages of the extra ``normkit[cli]``.
EXTRA = ("altair", "jinja2", "numpy", "rich", "scipy", "typer", "vl_convert")


def sentence(who: str, rule: str, came: str, fix: str = "") -> str:
    """Build ``WHO: RULE; CAME. FIX.``.

    Example:
        >>> sentence("LayerNorm", "x must have 2 axes", "x has 1", "Try x[None]")
        'LayerNorm: x must have 2 axes; x has 1. Try x[None].'
    """
    text = f"{who}: {rule}; {came}."
    return f"{text} {fix}." if fix else text


def choices(names: Iterable[object]) -> str:
    """Write allowed values as a list that reads well: ``'a', 'b' or 'c'``.

    Example:
        >>> choices(["inside", "outside"])
        "'inside' or 'outside'"
    """
    quoted = [repr(name) for name in names]
    return " or ".join([", ".join(quoted[:-1]), quoted[-1]] if len(quoted) > 1 else quoted)


def needs_extra(who: str, what: str, error: ModuleNotFoundError) -> str | None:
    """Say what to install where ``error`` is about a package of the extra; None where it is not.

    Example:
        >>> needs_extra("normkit", "the command line needs", ModuleNotFoundError(name="rich"))
        "normkit: the command line needs the packages of normkit[cli]; rich is not installed. \
Type pip install 'normkit[cli]'."
        >>> needs_extra("normkit", "it needs", ModuleNotFoundError(name="normkit.gone")) is None
        True
    """
    package = (error.name or "").partition(".")[0]
    if package not in EXTRA:
        return None
    fix = "Type pip install 'normkit[cli]'"
    return sentence(who, f"{what} the packages of normkit[cli]", f"{package} is not installed", fix)


def check_choice(who: str, option: str, value: object, allowed: tuple[object, ...]) -> None:
    """Raise :class:`OptionError` unless ``value`` is one of ``allowed``."""
    if value not in allowed:
        rule = f"{option} must be {choices(allowed)}"
        raise OptionError(sentence(who, rule, f"{option} is {value!r}"))
