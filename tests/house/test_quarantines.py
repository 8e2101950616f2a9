"""A test that does not run, or may fail, has a row in QUARANTINES.md: why, and until when."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.house.source import ROOT, label, python_files, tree

NAMES = ("skip", "skipif", "xfail", "importorskip", "flaky", "skipTest", "SkipTest")


def test_every_mark_has_a_row() -> None:
    """What is skipped or expected to fail in the tests is exactly what the table names."""
    marked = {where for file in files_of_tests() for where in marks(tree(file), label(file))}
    assert marked == set(rows((ROOT / "QUARANTINES.md").read_text(encoding="utf-8")))


def test_marks_are_found() -> None:
    """Every way to leave a test out is seen."""
    names = [".".join(("pytest", "mark", name)) for name in ("skipif", "xfail")]
    source = f"@{names[0]}(True)\ndef test_a(): pass\n@{names[1]}\ndef test_b(): pytest.skip('x')\n"
    assert marks(ast.parse(source), "f.py") == ["f.py::test_a", "f.py::test_b", "f.py::test_b"]


def test_rows_are_found() -> None:
    """A row is a line of the table that opens with a test's name in backticks."""
    text = "| test | why |\n|---|---|\n| `tests/a.py::test_b` | slow | 2030-01-01 |\n"
    assert rows(text) == ["tests/a.py::test_b"]


def files_of_tests() -> list[Path]:
    """Every Python file under tests/."""
    return [file for file in python_files() if label(file).startswith("tests/")]


def marks(module: ast.Module, where: str) -> list[str]:
    """Name the test around each use of pytest's skip, xfail and the like."""
    found = []
    for node in module.body:
        uses = [n for n in ast.walk(node) if isinstance(n, ast.Attribute) and n.attr in NAMES]
        found += [f"{where}::{getattr(node, 'name', 'module')}"] * len(uses)
    return found


def rows(text: str) -> list[str]:
    """Read the names of the tests that the table lists."""
    return re.findall(r"^\| `([^`]+)` \|", text, flags=re.MULTILINE)
