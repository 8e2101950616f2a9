"""A base install: normkit beside torch and what torch requires, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sysconfig
import venv
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.house.source import ROOT


def closure(name: str) -> dict[str, Distribution]:
    """Find a distribution and all that it requires on this machine, by name."""
    found: dict[str, Distribution] = {}
    todo = [name]
    while todo:
        one = distribution(todo.pop())
        found[one.name] = one
        for line in one.requires or []:
            wanted = Requirement(line)
            here = wanted.marker is None or wanted.marker.evaluate({"extra": ""})
            if here and wanted.name not in found:
                todo.append(wanted.name)
    return found


def top_entries(one: Distribution) -> set[Path]:
    """Name the files and folders of site-packages that a distribution put there."""
    roots = {Path(sysconfig.get_path(kind)) for kind in ("purelib", "platlib")}
    tops = {file.parts[0] for file in one.files or [] if file.parts[0] != ".."}
    return {root / top for root in roots for top in tops if (root / top).exists()}


@pytest.fixture(scope="module")
def base_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a fresh virtual environment that sees torch alone; links, so it costs no copy."""
    folder = tmp_path_factory.mktemp("base") / "venv"
    venv.create(folder, with_pip=False, symlinks=os.name != "nt")
    paths = {"base": str(folder), "platbase": str(folder)}
    site = Path(sysconfig.get_path("purelib", scheme="venv", vars=paths))
    for one in closure("torch").values():
        for entry in top_entries(one):
            link = site / entry.name
            if not link.exists() and entry.name != "__pycache__":
                link.symlink_to(entry, target_is_directory=entry.is_dir())
    (site / "normkit.pth").write_text(f"{ROOT / 'src'}\n", encoding="utf-8")
    return Path(sysconfig.get_path("scripts", scheme="venv", vars=paths)) / "python"


def run(python: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run that environment's Python, away from this one's settings."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    command = [str(python), *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=300, check=False
    )


LAYER = """
import torch, normkit
y = normkit.LayerNorm(4)(torch.tensor([[1.0, 2.0, 3.0, 6.0]], requires_grad=True))
y.sum().backward()
print([round(v, 3) for v in y.tolist()[0]])
"""


def test_environment_is_bare(base_python: Path) -> None:
    """None of the extra is there, so the tests below mean something."""
    code = "import importlib.util as u; print([n for n in {!r} if u.find_spec(n)])"
    names = ("numpy", "rich", "scipy", "typer", "altair", "vl_convert", "pytest", "hypothesis")
    done = run(base_python, "-c", code.format(names))
    assert done.stdout == "[]\n", done.stderr


def test_layer_works(base_python: Path) -> None:
    """A layer runs forward and backward."""
    done = run(base_python, "-c", LAYER)
    assert done.stdout == "[-1.069, -0.535, 0.0, 1.604]\n", done.stderr
    assert done.returncode == 0


@pytest.mark.parametrize("words", [(), ("--version",), ("compare", "--steps", "3"), ("nonsense",)])
def test_command_line_says_what_to_install(base_python: Path, words: tuple[str, ...]) -> None:
    """Any use of the command line answers in one sentence, with exit code 2."""
    start = "import sys; from normkit.cli import main; sys.exit(main())"
    done = run(base_python, "-W", "ignore:Failed to initialize NumPy", "-c", start, *words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        "normkit: the command line needs the packages of normkit[cli]; typer is not installed. "
        "Type pip install 'normkit[cli]'.\n"
    )
