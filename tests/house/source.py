"""Where the project's own files are, and how they parse: for the tests of this folder."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "normkit"
FOLDERS = ("src", "tests", "benchmarks", "examples", "docs", "tools", ".ci")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def project_files() -> list[Path]:
    """Every file that belongs to the project: those at the root and those of its folders."""
    found = [file for file in ROOT.iterdir() if file.is_file() and file.name != ".git"]
    for folder in FOLDERS:
        found += [file for file in (ROOT / folder).rglob("*") if file.is_file()]
    return sorted(file for file in found if not _is_cache(file))


def python_files() -> list[Path]:
    """Every Python file of the project."""
    return [file for file in project_files() if file.suffix == ".py"]


def cpp_files() -> list[Path]:
    """Every file of the kernels."""
    return [file for file in project_files() if file.suffix in (".cpp", ".h")]


def label(file: Path) -> str:
    """Name a file from the root of the project; the id of a parametrized test."""
    return file.relative_to(ROOT).as_posix()


@functools.cache
def tree(file: Path) -> ast.Module:
    """Parse a Python file."""
    return ast.parse(file.read_text(encoding="utf-8"), filename=str(file))


def functions(file: Path) -> Iterator[tuple[str, Function]]:
    """Yield every function of a file with its dotted name: ``Class.method``, ``outer.inner``."""
    todo: list[tuple[str, ast.AST]] = [("", tree(file))]
    while todo:
        prefix, node = todo.pop()
        for child in ast.iter_child_nodes(node):
            name = prefix
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = f"{prefix}.{child.name}" if prefix else child.name
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield name, child
            todo.append((name, child))


def _is_cache(file: Path) -> bool:
    parts = file.relative_to(ROOT).parts
    return any(part.startswith("__pycache__") or part.endswith(".egg-info") for part in parts)
