"""``normkit bench``: what is printed and written, and a sentence and a 2 for each wrong input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from normkit import benchmark, cli
from normkit.benchmark.model_share import Half, ModelReport
from normkit.benchmark.norm_clock import NormTime
from normkit.cli import bench_table
from normkit.errors import choices
from normkit.measure.time import Timing
from normkit.measure.time_ratio import Ratio
from tests.benchmark.small import QUICK

SMALL = ["--op", "rms_norm", "--shape", "6x16", "--dtype", "float64", "--threads", "1"]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Few rounds, a small copy, an empty folder to stand in, one width and no colour."""
    run = benchmark.run
    monkeypatch.setattr(benchmark, "run", lambda cells, **o: run(cells, rounds=QUICK, **o))
    monkeypatch.setattr("normkit.measure.time_load.COPY_ELEMENTS", 64)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "150")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")


OPS = choices(benchmark.OPS)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--op", "layernorm"], f"op must be {OPS}, or 'all'; op is 'layernorm'."),
        (
            ["--dtype", "half"],
            "dtype must be 'float32', 'bfloat16', 'float16' or 'float64', or 'all'; "
            "dtype is 'half'.",
        ),
        (
            ["--shape", "4096,-1"],
            "shape must be sizes above 0 with x between, several with commas; "
            "shape is '-1'. Try --shape 4096x1024.",
        ),
        (
            [*SMALL, "--json", "gone/bench.json"],
            "--json must name a file in a folder that exists; there is no folder 'gone'.",
        ),
        (
            [*SMALL, "--page", "gone/bench.html"],
            "--page must name a file in a folder that exists; there is no folder 'gone'.",
        ),
        (
            ["--op", "import", "--shape", "4x8"],
            "--op import stands alone; there are other options.",
        ),
        (
            ["--model", "m.py:build", "--json", "a.json"],
            "--model stands alone; there are other options.",
        ),
        (
            ["--model", "m.py:build", "--op", "rms_norm"],
            "--model stands alone; there are other options.",
        ),
        (["--targets", "--op", "rms_norm"], "--targets stands alone; there are other options."),
        (
            ["--model", "m.py:build"],
            "model must be a Python file and a function, with a colon between; "
            "there is no file 'm.py'. Try --model FILE.py:build.",
        ),
    ],
)
def test_bad_input(words: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One sentence, exit code 2, nothing written."""
    assert cli.main(["bench", *words]) == 2
    assert capsys.readouterr() == ("", f"bench: {text}\n")
    assert list(Path().iterdir()) == []


def test_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    """The table on stdout, progress on stderr, the record and the page in their files."""
    words = [*SMALL, "--dtype", "float32", "--mode", "forward,module", "--against", "torch"]
    words[words.index("6x16")] = "1x16"
    assert cli.main(["bench", *words, "--json", "b.json", "--page", "b.html"]) == 0
    out, errors = capsys.readouterr()
    table = [line.split() for line in out.partition("Errors against")[0].splitlines()]
    lines = [words[0] for words in table if words and words[0] in benchmark.PEERS]
    assert lines == ["normkit", "torch", "normkit", "torch"]
    assert "rms_norm forward float32 1x16, 1 thread" in out
    assert "rms_norm module float32 1x16, 1 thread" in out
    assert "Errors against float64" in out
    assert "rms_norm forward float32 1x16, 1 thread" in errors
    record = json.loads(Path("b.json").read_text())
    assert f"{record['date']}, " in out
    assert [row["mode"] for row in record["times"]] == ["forward"] * 2 + ["module"] * 2
    page = Path("b.html").read_text()
    assert "<h1>Norms, timed</h1>" in page
    assert "rms_norm" in page


def row(**values: Any) -> dict[str, Any]:
    """A row of times."""
    return {
        "op": "rms_norm", "implementation": "torch", "mode": "forward", "dtype": "float32",
        "shape": "4096x1024", "threads": 2, "device": "cpu", "rounds": 9, "time_us_p20": 4000.4,
        "time_us_p50": 4299.6, "time_us_p80": 5000.0, "moved_bytes": 33558528, "limit_us": 849.0,
        "fraction_of_limit": 0.197, "to_torch": None, "saved_bytes": None,
        "ours": {"p20": 4.0, "p50": 4.25, "p80": 5.0, "differs": True}, **values,
    }  # fmt: skip


def record(**values: Any) -> dict[str, Any]:
    """A record of a run."""
    return {
        "date": "2026-12-01T10:00:00+00:00", "machine": {"processor": "A"},
        "versions": {"torch": "2.13.0"}, "load": {"signs": []}, "times": [row()], "errors": [],
        "missing": [], "refused": [], **values,
    }  # fmt: skip


def shown(found: Any) -> str:
    """What a terminal of 150 columns shows."""
    from rich.console import Console

    console = Console(width=150, no_color=True, color_system=None)
    with console.capture() as capture:
        console.print(found)
    return capture.get()


def test_rows_are_written_out() -> None:
    """Quantiles, limit, fraction, ratios, saved bytes; a ratio within its spread has no number."""
    times = [
        row(),
        row(implementation="normkit", ours=None, saved_bytes=16777216,
            to_torch={"p20": 3.0, "p50": 4.25, "p80": 5.0, "differs": True}),
        row(implementation="slow", ours={"p20": 0.4, "p50": 0.5, "p80": 0.6, "differs": True}),
        row(implementation="alike", ours={"p20": 0.9, "p50": 1.2, "p80": 1.3, "differs": False}),
        row(implementation="product", limit_us=None, fraction_of_limit=None),
    ]  # fmt: skip
    text = shown(bench_table.times_table(times))
    lines = {line.split()[0]: " ".join(line.split()) for line in text.splitlines()[2:]}
    assert lines == {
        "torch": "torch 4300 (4000 5000) 849 0.20 4.25x faster",
        "normkit": "normkit 4300 (4000 5000) 849 0.20 4.25x 16.0",
        "slow": "slow 4300 (4000 5000) 849 0.20 2.00x slower",
        "alike": "alike 4300 (4000 5000) 849 0.20 no difference",
        "product": "product 4300 (4000 5000) 4.25x faster",
    }


def error(**values: Any) -> dict[str, Any]:
    """A row of errors."""
    return {
        "op": "rms_norm", "implementation": "torch", "mode": "forward_backward",
        "dtype": "float32", "regime": "unit", "value": "y", "worst_ulp": 1.5, "not_finite": 0,
        **values,
    }  # fmt: skip


def test_errors_are_summed_up() -> None:
    """Unit scale, the worst and where, what is not finite; forward rows only where nothing else."""
    rows = [
        error(), error(value="dx", worst_ulp=2.5),
        error(regime="huge", value="dx", worst_ulp=None, not_finite=7),
        error(mode="forward", regime="tiny", worst_ulp=99.0),
        error(implementation="onnxruntime", mode="forward"),
        error(implementation="onnxruntime", mode="forward", regime="huge", worst_ulp=2e7),
    ]  # fmt: skip
    lines = [" ".join(line.split()) for line in shown(bench_table.errors_table(rows)).splitlines()]
    assert lines[2:] == [
        "rms_norm float32 torch 1.50 2.50 inf dx, huge 7",
        "onnxruntime 1.50 > 1000 y, huge",
    ]


def test_what_did_not_run_and_load() -> None:
    """Below the tables."""
    text = shown(
        bench_table.render(
            record(
                missing=["openvino is missing: type pip install openvino"],
                refused=["script cannot run it: no reason"],
                load={"signs": ["one thing", "another"]},
            ),
            targets=False,
        )
    )
    assert (
        "openvino is missing: type pip install openvino.\nscript cannot run it: no reason.\n"
        in text
    )
    assert "The machine was loaded: one thing; another. Run again when it is idle." in text
    assert "2026-12-01T10:00:00+00:00, A; torch 2.13.0." in text


def test_targets() -> None:
    """Each with its number: below the floor, on it, at the goal, not measured."""
    ratio = {"p20": 4.0, "p50": 3.5, "p80": 5.0, "differs": True}
    times = [row(ours=ratio), row(implementation="normkit", ours=None, fraction_of_limit=0.5)]
    lines = {
        line.partition("  ")[0]: line.split()[-4:]
        for line in shown(bench_table.targets_table(times)).splitlines()
    }
    assert lines["rms_norm forward float32 4096x1024 vs torch"] == ["3.50", "3", "4", "floor"]
    assert lines["rms_norm forward float32 4096x1024 vs limit"] == ["0.50", "0.7", "0.9", "BELOW"]
    assert lines["rms_norm forward float32 4096x1024 vs compile"][:2] == ["not", "measured"]
    ratio["p50"] = 4.0
    assert "goal" in shown(bench_table.targets_table(times)).splitlines()[1]


def test_targets_run_their_rows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of the list, and the table at the end."""
    few = benchmark.cells(
        benchmark.Words(op="rms_norm", shape="2x4", dtype="float64", mode="forward", threads="1",
                        against="torch")
    )  # fmt: skip
    monkeypatch.setattr(benchmark, "target_cells", lambda threads: few)
    assert cli.main(["bench", "--targets"]) == 0
    out = capsys.readouterr().out
    assert "rms_norm forward float64 2x4, 1 thread" in out
    assert "rms_norm forward float32 4096x1024 vs torch" in out


def test_import(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """In milliseconds over torch."""
    times = {
        "torch": Timing(times_us=(1e6, 1.1e6, 0.9e6)),
        "normkit": Timing(times_us=(40e3, 41e3, 42e3)),
    }
    monkeypatch.setattr(benchmark, "time_import", lambda: times)
    assert cli.main(["bench", "--op", "import"]) == 0
    assert " ".join(capsys.readouterr().out.split()) == (
        "import normkit takes 41 ms (40 to 42) over torch, which takes 1000 ms (940 to 1060) by "
        "itself (median of 3 fresh processes; p20 to p80 in brackets)."
    )


def half(step_us: float, forward_us: float) -> Half:
    """A model with one norm."""
    norm = NormTime(name="layers.0", kind="RMSNorm", forward_us=forward_us, backward_us=10.0)
    return Half(step=Timing(times_us=(step_us,) * 6), norms=[norm])


def test_a_model(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Shares before and after, and what free norms would give."""
    found = ModelReport(
        before=half(200.0, 40.0),
        after=half(160.0, 10.0),
        swapped=["layers.0"],
        left=["bn"],
        speedup=Ratio(p20=1.2, p50=1.25, p80=1.3, differs=True),
    )
    monkeypatch.setattr(benchmark, "time_model", lambda place: found)
    assert cli.main(["bench", "--model", "m.py:build"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[1:] == [
        "layers.0 RMSNorm 50 25.0% 20 12.5%",
        "all norms 50 25.0% 20 12.5%",
        "whole step 200 160",
        "",
        "1 norm replaced by ours. Left as they are: bn.",
        "Norms: 0.40 of their time before. Step: 1.25x as fast as before; free norms would make "
        "it 1.33x as fast at most (Amdahl).",
    ]
