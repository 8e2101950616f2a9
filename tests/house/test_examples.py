"""Every example that a person can read is run: docstrings, and Python in the Markdown pages."""

from __future__ import annotations

import doctest
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.source import PACKAGE, label, project_files, python_files

BLOCK = re.compile(r"^```python\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def modules() -> list[str]:
    """Name every module of the package."""
    files = [file for file in python_files() if file.is_relative_to(PACKAGE)]
    names = [file.relative_to(PACKAGE.parent).with_suffix("").as_posix() for file in files]
    return [name.replace("/", ".").removesuffix(".__init__") for name in names]


def pages() -> list[Path]:
    """Find the Markdown pages that hold Python."""
    files = [file for file in project_files() if file.suffix == ".md"]
    return [file for file in files if BLOCK.search(file.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("name", modules())
def test_docstrings(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The examples of a module print what they say."""
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    lines: list[str] = []
    for example in doctest.DocTestFinder(exclude_empty=True).find(module, name):
        runner.run(example, out=lines.append)
    assert not runner.failures, "".join(lines)


@pytest.mark.parametrize("page", pages(), ids=label)
def test_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of a page run one after the other, as a reader would type them."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    for line, text in blocks(page.read_text(encoding="utf-8")):
        if ">>>" in text:
            run_session(text, names, page, line)
        else:
            # Blank lines in front, so that a traceback shows the line of the page.
            exec(compile("\n" * line + text, str(page), "exec"), names)


def run_session(text: str, names: dict[str, object], page: Path, line: int) -> None:
    """Run a block that shows a session with its output."""
    example = doctest.DocTestParser().get_doctest(text, names, page.name, str(page), line)
    lines: list[str] = []
    result = doctest.DocTestRunner(optionflags=OPTIONS).run(
        example, out=lines.append, clear_globs=False
    )
    names.update(example.globs)
    assert not result.failed, "".join(lines)


def blocks(text: str) -> Iterator[tuple[int, str]]:
    """Yield each Python block with the number of lines that stand before its code."""
    for match in BLOCK.finditer(text):
        yield text.count("\n", 0, match.start(1)), match.group(1)


def test_a_wrong_example_fails() -> None:
    """The runner tells a wrong output from a right one."""
    with pytest.raises(AssertionError, match="Expected"):
        run_session(">>> 1 + 1\n3\n", {}, Path("page.md"), 0)


def test_blocks_are_found() -> None:
    """Only Python blocks are taken, with their place."""
    text = "a\n```python\nx = 1\n```\n```bash\nls\n```\n```python\ny = x\n```\n"
    assert list(blocks(text)) == [(2, "x = 1\n"), (8, "y = x\n")]
