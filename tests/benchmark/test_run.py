"""A whole run: rows, errors, what is missing, and the record that is written."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from normkit.benchmark import OPS, Cell, Words, cells, read, run, write
from normkit.benchmark.importing import time_import
from normkit.benchmark.peers import PEERS, RefusedError
from normkit.benchmark.peers.in_torch import FunctionPeer
from normkit.benchmark.report import FORMAT, Report
from normkit.benchmark.run import COPY, time_row
from normkit.errors import DataError
from normkit.measure.time import Timing
from tests.benchmark.small import QUICK


def small(**words: str) -> list[Cell]:
    """Cells of a small RMSNorm against torch, but for what is said."""
    given = {"op": "rms_norm", "shape": "6x16", "dtype": "float32", "mode": "forward"}
    return cells(Words(**{**given, "against": "torch", "threads": "1", **words}))


@pytest.fixture(scope="module", autouse=True)
def small_copy() -> Iterator[None]:
    """The copy that looks for load is a small one too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("normkit.measure.time_load.COPY_ELEMENTS", 64)
        yield


@pytest.fixture(scope="module")
def report() -> Report:
    """Both directions, two dtypes, with a peer that has only one of them."""
    asked = small(
        mode="forward,forward_backward", dtype="float32,bfloat16", against="torch,onnxruntime"
    )
    return run(asked, rounds=QUICK)


def test_rows(report: Report) -> None:
    """One for each implementation that can do it, with all that a row says."""
    assert [(r.mode, r.dtype, r.implementation) for r in report.times] == [
        ("forward", "float32", "normkit"),
        ("forward", "float32", "torch"),
        ("forward", "float32", "onnxruntime"),
        ("forward_backward", "float32", "normkit"),
        ("forward_backward", "float32", "torch"),
        ("forward", "bfloat16", "normkit"),
        ("forward", "bfloat16", "torch"),
        ("forward", "bfloat16", "onnxruntime"),
        ("forward_backward", "bfloat16", "normkit"),
        ("forward_backward", "bfloat16", "torch"),
    ]
    for row in report.times:
        assert (row.op, row.shape, row.threads, row.device, row.rounds) == (
            "rms_norm", "6x16", 1, "cpu", 2
        )  # fmt: skip
        assert 0 < row.time_us_p20 <= row.time_us_p50 <= row.time_us_p80
        assert (row.ours is None) is (row.implementation == "normkit")
        assert (row.to_torch is None) is (row.implementation == "torch")
        assert (row.saved_bytes is None) is (row.mode == "forward")


def test_saved_bytes(report: Report) -> None:
    """x at least, parameters not."""
    saved = [r.saved_bytes for r in report.times if r.mode == "forward_backward"]
    assert all(s is not None and 6 * 16 * 2 <= s < 10 * 6 * 16 * 4 for s in saved)
    only_x = FunctionPeer("other", lambda op: lambda x, weight: x * weight)
    task_rows = run(small(mode="forward_backward"), rounds=QUICK).times
    assert task_rows[0].saved_bytes is not None
    assert only_x.missing() is None


def test_errors_are_measured_once(report: Report) -> None:
    """Where both directions ran, the one with gradients says it; forward-only peers by theirs."""
    modes = {(r.implementation, r.mode) for r in report.errors}
    assert modes == {
        ("normkit", "forward_backward"),
        ("torch", "forward_backward"),
        ("onnxruntime", "forward"),
    }
    assert {r.dtype for r in report.errors} == {"float32", "bfloat16"}


def test_float64_has_no_wider_truth() -> None:
    """Times only."""
    found = run(small(dtype="float64"), rounds=QUICK)
    assert len(found.times) == 2
    assert found.errors == []


def test_the_limit_is_a_copy_of_as_many_bytes() -> None:
    """x is read and written by a copy in 10 us; the times of one round are compared."""
    (cell,) = cells(
        Words(op="add_rms_norm", shape="6x16", dtype="float32", mode="forward", threads="1")
    )
    x, weight = 6 * 16 * 4, 16 * 4
    timings = {
        "normkit": Timing(times_us=(40.0, 80.0)),
        "torch": Timing(times_us=(120.0, 240.0)),
        COPY: Timing(times_us=(10.0, 20.0)),
    }
    row = time_row(cell, "cpu", "normkit", timings, None)
    copies = (4 * x + weight) / (2 * x)
    assert row.moved_bytes == 4 * x + weight
    assert row.limit_us == pytest.approx(15 * copies)
    assert row.fraction_of_limit == pytest.approx(10 * copies / 40)
    assert row.to_torch is not None
    assert row.to_torch.p50 == pytest.approx(3.0)
    assert row.ours is None
    row = time_row(cell, "cpu", "torch", timings, 7)
    assert row.ours is not None
    assert row.ours.p50 == pytest.approx(3.0)
    assert (row.to_torch, row.saved_bytes) == (None, 7)


def test_no_memory_limit_of_a_matrix_product() -> None:
    """Arithmetic is its limit."""
    (cell,) = cells(
        Words(op="norm_linear", shape="6x16", dtype="float32", mode="forward", threads="1")
    )
    timing = Timing(times_us=(1.0, 1.0))
    row = time_row(cell, "cpu", "normkit", {"normkit": timing, COPY: timing}, None)
    assert (row.limit_us, row.fraction_of_limit) == (None, None)


def test_threads_are_set_and_put_back() -> None:
    """For everybody in the cell."""
    seen = []
    other = FunctionPeer(
        "torch", lambda op: lambda *a: seen.append(torch.get_num_threads()) or op.torch(*a)
    )
    before = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PEERS, "torch", other)  # type: ignore[arg-type]
        run(small(threads="2", dtype="float64"), rounds=QUICK)
    assert set(seen) == {2}
    assert torch.get_num_threads() == before


def test_a_refusal_is_a_row_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a sentence, once."""

    class Refusing(FunctionPeer):
        def bind(self, task: object) -> None:
            raise RefusedError("no kernel")

    monkeypatch.setitem(PEERS, "torch", Refusing("torch", lambda op: op.torch))  # type: ignore[arg-type]
    found = run(small(), rounds=QUICK)
    assert [row.implementation for row in found.times] == ["normkit"]
    assert found.refused == ["torch cannot run rms_norm forward float32: no kernel"]


def test_a_missing_peer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """What to install, while it runs and in the record; the others run."""
    monkeypatch.setattr(
        "normkit.benchmark.peers.peer.find_spec", lambda name: None if name == "openvino" else 1
    )
    heard: list[str] = []
    found = run(small(against="torch,openvino", dtype="float64"), rounds=QUICK, tell=heard.append)
    text = "openvino is missing: type pip install openvino"
    assert found.missing == [text]
    assert heard == [text, "rms_norm forward float64 6x16, 1 thread"]
    assert len(found.times) == 2


def test_record(report: Report, tmp_path: Path) -> None:
    """Plain JSON with every part, read back as it was written; an error without end is null."""
    endless = dataclasses.replace(report.errors[0], worst_ulp=math.inf, not_finite=3)
    report = dataclasses.replace(report, errors=[*report.errors, endless])
    write(report, tmp_path / "bench.json")
    found = read(tmp_path / "bench.json")
    assert found["format"] == FORMAT
    assert len(found["times"]) == len(report.times)
    assert {"normkit", "python", "torch", "onnxruntime"} <= found["versions"].keys()
    assert {"processor", "cores", "instructions", "system"} <= found["machine"].keys()
    assert found["load"]["signs"] == list(report.load.signs)
    assert found["times"][1]["ours"].keys() == {"p20", "p50", "p80", "differs"}
    assert (found["errors"][-1]["worst_ulp"], found["errors"][-1]["not_finite"]) == (None, 3)
    assert found["errors"][0]["worst_ulp"] == pytest.approx(report.errors[0].worst_ulp, rel=1e-4)
    assert "Infinity" not in (tmp_path / "bench.json").read_text()


@pytest.mark.parametrize("text", ["", "[]", "{}", json.dumps({"format": "other"})])
def test_another_file_is_refused(text: str, tmp_path: Path) -> None:
    """A sentence with the file's name."""
    (tmp_path / "other.json").write_text(text)
    with pytest.raises(DataError) as caught:
        read(tmp_path / "other.json")
    assert str(caught.value) == (
        "bench: the file must be what normkit bench --json wrote; 'other.json' is not."
    )


def test_every_op_runs() -> None:
    """The whole table, both directions, against torch."""
    from tests.benchmark.small import shape_of

    for name in OPS:
        shape = "x".join(map(str, shape_of(name)))
        asked = small(op=name, shape=shape, mode="forward_backward", dtype="float64")
        assert [r.implementation for r in run(asked, rounds=QUICK).times] == ["normkit", "torch"]


def test_import_is_timed_in_fresh_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first is not counted, and the two times are told apart."""
    answers = iter([["9", "9"], ["2000", "30"], ["1000", "10"], ["3000", "20"]])
    monkeypatch.setattr(
        "normkit.benchmark.importing.subprocess.run",
        lambda *a, **k: type("Done", (), {"stdout": " ".join(next(answers))})(),
    )
    found = time_import(runs=3)
    assert (found["torch"].p50, found["normkit"].p50) == (2000.0, 20.0)
