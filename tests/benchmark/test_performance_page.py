"""The measured parts of docs/performance.md are what the records in docs/measurements say."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import pytest

from normkit.benchmark import OPS, PEERS
from normkit.benchmark.report import FORMAT
from tests.cli.test_bench import error, record, row
from tests.house.source import ROOT


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    """tools/performance.py, which stands in no package."""
    spec = importlib.util.spec_from_file_location("performance", ROOT / "tools" / "performance.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_current(tool: ModuleType) -> None:
    """Else ``make docs``."""
    text = tool.PAGE.read_text(encoding="utf-8")
    assert tool.page(text) == text
    assert len(tool.PART.findall(text)) == text.count("<!-- measured") == 3


def test_the_page_names_every_op_and_peer() -> None:
    """In the tables of bytes and of peers."""
    text = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    cells = set(re.findall(r"[a-z_]+", " ".join(re.findall(r"^\| ([^|]+) \|", text, re.MULTILINE))))
    assert {*OPS, *PEERS} - {"normkit"} <= cells


PARTS = "a\n<!-- measured: run {kind} -->\nold\n<!-- end -->\nb\n"


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        (
            "times",
            "| rms_norm forward float32 4096x1024, 2 threads | torch | 4300 | 849 | 0.20 |  "
            "| 4.25x faster |  |",
        ),
        ("errors", "| rms_norm float32 | torch | 1.50 |  | 1.50 | y, unit |  |"),
        ("targets", "| rms_norm forward float32 4096x1024 vs torch | 4.25 | 3 | 4 |"),
    ],
)
def test_parts(
    kind: str, line: str, tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it comes from, then the table; what stands around stays."""
    monkeypatch.setattr(tool, "RECORDS", tmp_path)
    text = PARTS.format(kind=kind)
    assert tool.page(text) == text.replace("old", "Not measured yet.")
    times = [row(), row(implementation="normkit", ours=None)]
    found = record(times=times, errors=[error()], load={"signs": ["too busy"]})
    (tmp_path / "run.json").write_text(json.dumps({"format": FORMAT, **found}))
    lines = tool.page(text).splitlines()
    assert lines[:4] == [
        "a",
        f"<!-- measured: run {kind} -->",
        "Measured on 2026-12-01 (A; torch 2.13.0). The machine was loaded: too busy.",
        "",
    ]
    assert line in lines
    assert lines[-2:] == ["<!-- end -->", "b"]
