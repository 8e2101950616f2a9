"""``normkit info``: every fact is what the library itself says, as a table and as JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

import normkit
from normkit import cli
from normkit.cli import machine
from normkit.ops import Situation, describe_paths
from normkit.spec import FUSED_OPS, NORMS


@pytest.fixture
def report(capsys: pytest.CaptureFixture[str]) -> dict[str, list[dict[str, str]]]:
    """What ``normkit info --json`` prints, read back."""
    assert cli.main(["info", "--json"]) == 0
    found: dict[str, list[dict[str, str]]] = json.loads(capsys.readouterr().out)
    return found


def value(report: dict[str, list[dict[str, str]]], group: str, name: str) -> str:
    """Look one fact up; it must be there once."""
    (found,) = [f["value"] for f in report["facts"] if (f["group"], f["name"]) == (group, name)]
    return found


def test_versions(report: Any) -> None:
    """The versions are those that run."""
    assert value(report, "versions", "normkit") == normkit.__version__
    assert value(report, "versions", "torch") == torch.__version__
    assert value(report, "versions", "vl_convert") != "not installed"


def test_threads_and_cpu(report: Any) -> None:
    """Threads and CPU capability are torch's own answers."""
    assert value(report, "threads", "torch, inside an op") == str(torch.get_num_threads())
    assert value(report, "CPU", "torch uses") == torch.backends.cpu.get_cpu_capability()


def test_capability_agrees_with_the_flags(report: Any) -> None:
    """Two independent sources: what torch takes, the system's list of features must have."""
    flags = value(report, "CPU", "has").split()
    needed = {"AVX2": "avx2", "AVX512": "avx512f"}.get(value(report, "CPU", "torch uses"))
    assert needed is None or needed in flags or flags[0] == "unknown:"


def test_memory(report: Any) -> None:
    """A positive number with its unit."""
    number, unit = value(report, "memory", "machine").split()
    assert float(number) > 0
    assert unit == "GiB"


def test_paths(report: Any) -> None:
    """Each op of the registry has a row for each situation, with a reason."""
    rows = report["paths"]
    named = {entry.op for entry in NORMS.values() if entry.op} | set(FUSED_OPS)
    assert {row["op"] for row in rows} == named
    for op in {row["op"] for row in rows}:
        places = [row["situation"] for row in rows if row["op"] == op]
        assert sorted(places) == sorted(situation.value for situation in Situation)
    assert all(row["path"] and row["reason"] for row in rows)


def test_table(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The table shows all of the same facts and rows."""
    monkeypatch.setenv("COLUMNS", "240")
    assert cli.main(["info"]) == 0
    out = capsys.readouterr().out
    for fact in machine.machine_facts():
        if fact.group != "memory":  # what is free changes from one moment to the next
            assert fact.name in out
            assert fact.value in out
    for row in describe_paths():
        assert row.situation in out
        assert row.reason in out


def test_no_markup(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A value with brackets is shown as it is."""
    fact = machine.Fact(group="versions", name="x", value="a [red]b[/red] :smile:")
    monkeypatch.setattr("normkit.cli.info.machine_facts", lambda: [fact])
    assert cli.main(["info"]) == 0
    assert "a [red]b[/red] :smile:" in capsys.readouterr().out


def test_field() -> None:
    """The first line of that name, and only of that name."""
    text = "flags2 : no\nflags\t\t: fma avx2\nflags : second\n"
    assert machine._field(text, "flags") == "fma avx2"
    assert machine._field(text, "Features") is None


def test_missing_extra_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that is not there is called so."""
    monkeypatch.setattr(machine, "EXTRA", ("no_such_package_at_all",))
    (last,) = [f for f in machine.machine_facts() if f.name == "no_such_package_at_all"]
    assert last.value == "not installed"
