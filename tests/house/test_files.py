"""What no file of the project may hold."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.house.source import label, project_files

BINARY = (".png", ".pt", ".svg", ".woff2")
# The places where people's and machines' own folders are. Written in two parts, so that this
# file does not hold what it looks for.
PLACES = "|".join(("home", "root", "tmp", "work", "Users", "mnt", "workspace"))
# Not after a letter, a dot or a closing bracket: there the path goes on from somewhere else.
ABSOLUTE = re.compile(
    r"(?<![\w.})\]>~*/-])/(?:" + PLACES + r")/[\w.-]" + r"|[A-Za-z]:\\{1,2}Users\b",
)


@pytest.mark.parametrize("file", project_files(), ids=label)
def test_no_path_of_one_machine(file: Path) -> None:
    """No file names a folder that only one machine has."""
    if file.suffix in BINARY:
        return
    lines = file.read_text(encoding="utf-8").splitlines()
    found = [f"{n}: {line.strip()}" for n, line in enumerate(lines, 1) if ABSOLUTE.search(line)]
    assert not found, f"{label(file)} names a folder of one machine: {found}"


@pytest.mark.parametrize("text", ["cd /ho" + "me/ann/x", "'/tm" + "p/a'", "C:\\Us" + "ers\\ann"])
def test_pattern_finds(text: str) -> None:
    """The pattern knows the usual places."""
    assert ABSOLUTE.search(text)


@pytest.mark.parametrize("text", ["docs/work/a.md", "a/b", "{folder}/tmp/x", "runs/demo/page.html"])
def test_pattern_leaves(text: str) -> None:
    """The pattern leaves relative paths alone."""
    assert not ABSOLUTE.search(text)
