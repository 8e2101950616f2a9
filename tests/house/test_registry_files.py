"""One name everywhere: each norm of the registry has its file in every room."""

from __future__ import annotations

import pytest

import normkit
import normkit.functional
import normkit.layers
from normkit.spec import FUSED_OPS, NORMS, PLACEMENTS, NormEntry
from tests.house.source import ROOT, label

ENTRIES = list(NORMS.values())


def expected_files(entry: NormEntry) -> list[str]:
    """Name the files that a norm has; a norm that computes nothing has no op."""
    files = [f"docs/norms/{entry.name}.md"]
    if entry.op is not None:
        files += [
            f"src/normkit/ops/{entry.op}.py",
            f"src/normkit/reference/{entry.op}.py",
            f"tests/norms/test_{entry.op}.py",
        ]
    if entry.kernel is not None:
        files.append(f"src/normkit/kernels/cpu/{entry.kernel}.cpp")
    return files


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_every_file_is_there(entry: NormEntry) -> None:
    """None of its files is missing."""
    missing = [name for name in expected_files(entry) if not (ROOT / name).is_file()]
    assert not missing, f"{entry.name}: write {', '.join(missing)}"


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_every_layer_is_there(entry: NormEntry) -> None:
    """Its layers exist in normkit.layers, and at the top of the package."""
    missing = [name for name in entry.layers if not hasattr(normkit.layers, name)]
    hidden = [name for name in entry.layers if not hasattr(normkit, name)]
    assert not missing, f"{entry.name}: normkit.layers has no {', '.join(missing)}"
    assert not hidden, f"{entry.name}: normkit has no {', '.join(hidden)}"


@pytest.mark.parametrize("entry", [entry for entry in ENTRIES if entry.op], ids=lambda e: e.name)
def test_every_function_is_there(entry: NormEntry) -> None:
    """Its op can be called on tensors."""
    assert callable(getattr(normkit.functional, str(entry.op), None))


@pytest.mark.parametrize("op", FUSED_OPS)
def test_a_fused_op_is_there(op: str) -> None:
    """It has a file, can be called on tensors, and stands on the page of fused ops."""
    assert (ROOT / f"src/normkit/ops/{op}.py").is_file()
    assert callable(getattr(normkit.functional, op, None))
    assert f"`{op}`" in (ROOT / "docs/fused.md").read_text(encoding="utf-8")


def test_no_page_without_a_norm() -> None:
    """docs/norms describes norms that exist, and nothing else."""
    assert pages("norms") <= {*NORMS, "README", "index"}


def test_a_page_for_every_placement() -> None:
    """docs/placements describes each placement, and nothing else; one page compares them."""
    assert pages("placements") == {*PLACEMENTS, "index"}


@pytest.mark.parametrize("folder", ["norms", "placements"])
def test_a_page_has_its_sections(folder: str) -> None:
    """What a reader looks for stands under the same words on every page."""
    wanted = ("## What it ", "## Questions", "## Pitfalls", "```python")
    for page in (ROOT / "docs" / folder).glob("*.md"):
        if page.stem != "index":
            text = page.read_text(encoding="utf-8")
            missing = [words for words in wanted if words not in text]
            assert not missing, f"{label(page)} has no {missing}"


def pages(folder: str) -> set[str]:
    """Name the pages of a folder of docs/."""
    return {page.stem for page in (ROOT / "docs" / folder).glob("*.md")}
