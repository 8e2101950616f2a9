"""Small files, small functions, few parameters: a reader holds each of them in mind at once."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.house.source import Function, cpp_files, functions, label, python_files

MAX_FILE_LINES = 300
MAX_TEST_FILE_LINES = 400
MAX_KERNEL_LINES = 400
MAX_COLUMNS = 100
MAX_FUNCTION_LINES = 40  # without the docstring
MAX_PARAMETERS = 7  # without self and cls

# Verbs take as many options as a person can set, and drop-in layers and functions repeat torch's
# signature; there the signature is not counted.
FREE_FILES = ("src/normkit/cli/", "src/normkit/functional/")
FREE_CONSTRUCTORS = ("src/normkit/layers/",)
FREE_FUNCTIONS = frozenset(
    {
        "src/normkit/lab/compare.py:compare",  # the Python twin of a verb
        "src/normkit/lab/options.py:make_options",  # what both twins accept
        "src/normkit/reference/rms_norm.py:rms_norm",  # each option of the formula, by name
        "src/normkit/reference/rms_norm.py:rms_norm_backward",
        "tests/norms/truth.py:row_truth",  # the same, once more from the papers
    }
)


@pytest.mark.parametrize("file", python_files(), ids=label)
def test_file_is_short(file: Path) -> None:
    """A file stays under the limit of its kind."""
    limit = MAX_TEST_FILE_LINES if label(file).startswith("tests/") else MAX_FILE_LINES
    lines = len(file.read_text(encoding="utf-8").splitlines())
    assert lines <= limit, f"{label(file)} has {lines} lines, at most {limit}: split it by concept"


@pytest.mark.parametrize("file", cpp_files(), ids=label)
def test_cpp_file_is_short(file: Path) -> None:
    """A file in C++ stays under its limit, and so do its lines, which no formatter breaks."""
    lines = file.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= MAX_KERNEL_LINES
    assert [n for n, line in enumerate(lines, 1) if len(line) > MAX_COLUMNS] == []


@pytest.mark.parametrize("file", python_files(), ids=label)
def test_functions_are_short(file: Path) -> None:
    """No function is longer than the limit, its docstring not counted."""
    long = {name: code_lines(f, signature=not is_free(file, name)) for name, f in functions(file)}
    long = {name: lines for name, lines in long.items() if lines > MAX_FUNCTION_LINES}
    assert not long, f"{label(file)}: more than {MAX_FUNCTION_LINES} lines of code in {long}"


@pytest.mark.parametrize("file", python_files(), ids=label)
def test_functions_take_few_parameters(file: Path) -> None:
    """No function takes more parameters than the limit, those on the lists above excepted."""
    many = {
        name: parameters(function)
        for name, function in functions(file)
        if parameters(function) > MAX_PARAMETERS and not is_free(file, name)
    }
    assert not many, f"{label(file)}: more than {MAX_PARAMETERS} parameters in {many}"


def test_no_stale_exception() -> None:
    """Each function on the list exists and needs to be there."""
    needed = {
        f"{label(file)}:{name}"
        for file in python_files()
        for name, function in functions(file)
        if parameters(function) > MAX_PARAMETERS
    }
    assert needed >= FREE_FUNCTIONS


def test_counts() -> None:
    """The counters themselves: docstring and self are not counted."""
    source = (
        'class A:\n def f(self, a, /, b, *c, d=1, **e):\n  """One.\n\n  Two.\n  """\n  return a\n'
    )
    function = ast.parse(source).body[0].body[0]  # type: ignore[attr-defined]
    assert code_lines(function) == 2
    assert code_lines(function, signature=False) == 1
    assert parameters(function) == 5


def code_lines(function: Function, *, signature: bool = True) -> int:
    """Count the lines of a function, without its docstring."""
    first = function.body[0]
    lines = span(function) if signature else last_line(function) - first.lineno + 1
    return lines if ast.get_docstring(function, clean=False) is None else lines - span(first)


def span(node: ast.stmt) -> int:
    """Count the lines that a statement stands on."""
    return last_line(node) - node.lineno + 1


def last_line(node: ast.stmt) -> int:
    """Where a statement ends."""
    return node.end_lineno or node.lineno


def parameters(function: Function) -> int:
    """Count the parameters without self and cls."""
    taken = function.args
    named = [*taken.posonlyargs, *taken.args, *taken.kwonlyargs]
    count = sum(argument.arg not in ("self", "cls") for argument in named)
    return count + (taken.vararg is not None) + (taken.kwarg is not None)


def is_free(file: Path, name: str) -> bool:
    """Whether this function may take as many parameters as it needs."""
    where = label(file)
    constructor = name.endswith("__init__") and where.startswith(FREE_CONSTRUCTORS)
    return constructor or where.startswith(FREE_FILES) or f"{where}:{name}" in FREE_FUNCTIONS
