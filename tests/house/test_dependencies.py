"""What the project depends on is pinned for developers and explained to readers."""

from __future__ import annotations

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from normkit.cli import EXTRA
from tests.house.source import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = [Requirement(r) for r in PROJECT["project"]["optional-dependencies"]["cli"]]
WANTED = [
    *(Requirement(r) for r in PROJECT["project"]["dependencies"]),
    *EXTRAS,
    *(Requirement(r) for r in PROJECT["dependency-groups"]["dev"]),
]
# The names by which what pip installs is imported.
IMPORTED_AS = {"vl-convert-python": "vl_convert"}


def pins() -> dict[str, Version]:
    """Read constraints.txt; every line of it is an exact pin."""
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    pairs = [line.split("==") for line in lines]
    return {canonicalize_name(name): Version(version) for name, version in pairs}


@pytest.mark.parametrize("wanted", WANTED, ids=lambda wanted: wanted.name)
def test_is_pinned_within_its_range(wanted: Requirement) -> None:
    """constraints.txt has it, at a version that pyproject.toml allows."""
    pinned = pins()[canonicalize_name(wanted.name)]
    assert wanted.specifier.contains(pinned)
    assert pinned.local is None, (
        "a pin without the label of one build: every machine can install it"
    )


@pytest.mark.parametrize("wanted", WANTED, ids=lambda wanted: wanted.name)
def test_has_a_reason(wanted: Requirement) -> None:
    """docs/decisions.md has a dated row that names it."""
    text = (ROOT / "docs" / "decisions.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| \d{4}-\d{2}-\d{2} \| ([^|]+) \|", text, flags=re.MULTILINE)
    assert wanted.name in {name.strip() for row in named for name in row.split(",")}


def test_the_command_line_knows_its_extra() -> None:
    """The sentence about a missing package is given for exactly the packages of the extra."""
    assert {IMPORTED_AS.get(wanted.name, wanted.name) for wanted in EXTRAS} == set(EXTRA)


def test_every_verb_of_make_says_what_it_does() -> None:
    """Each phony target has the text that ``make`` prints."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    (phony,) = re.findall(r"^\.PHONY: (.+)$", text, flags=re.MULTILINE)
    assert re.findall(r"^([a-z-]+):.*## \w", text, flags=re.MULTILINE) == phony.split()
