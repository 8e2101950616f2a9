"""``import normkit`` costs what ``import torch`` costs: it loads nothing else."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

# Heavy, or not there in a base install. numpy is torch's own choice, so it is not in the list.
NEVER = (
    "altair",
    "hypothesis",
    "IPython",
    "jax",
    "matplotlib",
    "pandas",
    "playwright",
    "pytest",
    "rich",
    "scipy",
    "sympy",
    "tensorflow",
    "torch._dynamo",
    "torch._inductor",
    "torch.utils.cpp_extension",
    "torchvision",
    "transformers",
    "triton",
    "typer",
    "vl_convert",
)


def modules_after(statement: str) -> set[str]:
    """Run a statement in a fresh Python and return the names of the modules that it loaded."""
    code = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.fixture(scope="module")
def after_torch() -> set[str]:
    """Modules after ``import torch``."""
    return modules_after("import torch")


@pytest.fixture(scope="module")
def after_normkit() -> set[str]:
    """Modules after ``import normkit``."""
    return modules_after("import normkit")


def test_loads_none_of_the_list(after_normkit: set[str]) -> None:
    """Nothing of the fixed list is loaded."""
    assert not after_normkit.intersection(NEVER)


def test_adds_only_itself(after_torch: set[str], after_normkit: set[str]) -> None:
    """Every other new module is of the standard library."""
    new = {name.partition(".")[0] for name in after_normkit} - {
        name.partition(".")[0] for name in after_torch
    }
    assert new - set(sys.stdlib_module_names) == {"normkit"}


def test_the_list_would_be_seen() -> None:
    """The measurement works: a module of the list that is imported shows up."""
    assert "rich" in modules_after("import rich")
