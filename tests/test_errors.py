"""The error sentences: their form, and what they can be caught as."""

from __future__ import annotations

import pytest

from normkit import errors
from normkit.errors import OptionError, check_choice, choices, sentence


def test_sentence_without_a_fix() -> None:
    """The rule, then what came."""
    assert sentence("Who", "x must be y", "x is z") == "Who: x must be y; x is z."


def test_sentence_with_a_fix() -> None:
    """The rule, what came, what to type."""
    text = sentence("Who", "x must be y", "x is z", "Try x=y")
    assert text == "Who: x must be y; x is z. Try x=y."


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["a"], "'a'"),
        (["a", "b"], "'a' or 'b'"),
        (["a", "b", "c"], "'a', 'b' or 'c'"),
        ([1, 2], "1 or 2"),
        ((name for name in "ab"), "'a' or 'b'"),
        ([], ""),
    ],
)
def test_choices(names: list[object], text: str) -> None:
    """Allowed values as a list that reads well."""
    assert choices(names) == text


def test_check_choice() -> None:
    """A value on the list passes; another is named beside the list."""
    check_choice("Who", "mode", "fan_in", ("fan_in", "fan_out"))
    with pytest.raises(OptionError) as caught:
        check_choice("Who", "mode", "fan", ("fan_in", "fan_out"))
    assert str(caught.value) == "Who: mode must be 'fan_in' or 'fan_out'; mode is 'fan'."


@pytest.mark.parametrize(
    ("kind", "builtin"),
    [
        (errors.ShapeError, ValueError),
        (errors.DtypeError, TypeError),
        (errors.OptionError, ValueError),
        (errors.StateError, RuntimeError),
        (errors.DataError, ValueError),
    ],
)
def test_kinds(kind: type[Exception], builtin: type[Exception]) -> None:
    """Each is a NormkitError, and what Python calls that kind of mistake."""
    assert issubclass(kind, errors.NormkitError)
    assert issubclass(kind, builtin)
