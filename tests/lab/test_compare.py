"""The whole: from options to verdicts, page and pictures, and on from there."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from normkit.errors import StateError
from normkit.lab import Comparison, compare, records
from normkit.lab.folder import locked, new_name, read_json
from tests.lab import small

QUICK = {"norm": "layer_norm,batch_norm", "steps": 2, "batch_size": 2, "jobs": 2}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the text of this module is."""
    found = tmp_path_factory.mktemp("compare")
    small.write_text(found)
    return found


@pytest.fixture(scope="module")
def console() -> Console:
    """What the progress of :func:`found` was printed to."""
    return Console(file=io.StringIO(), width=200)


@pytest.fixture(scope="module")
def found(folder: Path, console: Console) -> Comparison:
    """Two norms, two seeds, two steps."""
    out, text = folder / "out", folder / "words.txt"
    return compare(text=text, seeds=2, out=out, console=console, **QUICK)  # type: ignore[arg-type]


@pytest.fixture
def no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what takes seconds and is not looked at."""
    monkeypatch.setattr("normkit.lab.page.write", lambda found: None)


def test_every_run_has_its_folder(found: Comparison) -> None:
    """And nothing else is there."""
    names = {run.config.id for run in found.runs}
    assert len(names) == 4
    assert {path.name for path in (found.out / "runs").iterdir()} == names
    assert {path.name for path in found.out.iterdir()} - {".lock"} == {
        "recipe.json",
        "page.html",
        "pictures",
        "runs",
    }
    pictures = {path.name for path in (found.out / "pictures").iterdir()}
    assert {f"{name}.{kind}" for name in ("training-loss", "validation-loss") for kind in KINDS} < (
        pictures
    )


KINDS = ("png", "svg")


def test_the_plan(found: Comparison, folder: Path) -> None:
    """Options, text with its hash and entropies, threads, versions, runs."""
    plan = read_json(found.out / "recipe.json")
    assert plan["runs"] == [run.config.id for run in found.runs]
    assert plan["text"] == {
        **small.text().summary(),
        "name": str(folder / "words.txt"),
        "path": str(folder / "words.txt"),
    }
    assert plan["options"]["norm"] == ["layer_norm", "batch_norm"]
    assert plan["threads"] >= 1
    assert set(plan["versions"]) == {"normkit", "torch", "python", "system", "threads"}


def test_the_result(found: Comparison) -> None:
    """Verdict, ranking and records are those of the runs."""
    (verdict,) = found.verdicts
    assert verdict.claim == "BatchNorm, Pre-norm validates better than LayerNorm, Pre-norm"
    losses = {
        (run.config.norm, run.config.seed): run.measures["validation_loss"] for run in found.runs
    }
    for seed, value in verdict.differences.items():
        assert value == losses["batch_norm", seed] - losses["layer_norm", seed]
    (ranking,) = found.rankings
    assert len(ranking.standings) == 2
    rows = found.records()
    assert {row["run"] for row in rows} == {run.config.id for run in found.runs}
    for run in found.runs:
        last = [r for r in rows if r["run"] == run.config.id and r["split"] == "validation"][-1]
        assert last["value"] == run.measures["validation_loss"]


def test_print_shows_verdicts_first(found: Comparison) -> None:
    """Then who trained best, the table, the page."""
    text = str(found)
    order = [
        "Which norm, and where?",
        f"{found.verdicts[0].decision.upper()}: BatchNorm",
        "Source: asked by this comparison.",
        "Best here: ",
        "valid (batch)",
        "Page: ",
    ]
    places = [text.index(words) for words in order]
    assert places == sorted(places)
    assert max(map(len, text.splitlines())) <= 100
    assert "\x1b" not in text


def test_progress_is_plain_lines_outside_a_terminal(found: Comparison, console: Console) -> None:
    """One when a run starts, one when it ends."""
    file = console.file
    assert isinstance(file, io.StringIO)
    lines = file.getvalue().splitlines()
    for run in found.runs:
        mine = [line for line in lines if run.config.id in line]
        assert mine[0] == f"start    {run.config.id}"
        assert mine[1].startswith(f"done     {run.config.id}, ")
        assert len(mine) == 2
    assert lines[-1].endswith("(4/4)")


def test_resume_of_a_finished_comparison_trains_nothing(found: Comparison) -> None:
    """It reads, judges and draws again."""
    console = Console(file=io.StringIO())
    again = compare(out=found.out, resume=True, console=console)
    assert again.verdicts == found.verdicts
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue() == ""


@pytest.mark.usefixtures("no_page")
def test_seeds_can_grow(folder: Path) -> None:
    """The runs that are there stay; the new seed joins."""
    text, out = folder / "words.txt", folder / "grows"
    first = compare(text=text, seeds=1, out=out, **QUICK)  # type: ignore[arg-type]
    assert first.verdicts[0].decision == "undecided"
    stamps = {path: path.stat().st_mtime_ns for path in out.glob("runs/*/result.json")}
    more = compare(text=text, seeds=2, out=out, resume=True)
    assert len(more.runs) == 4
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps
    assert sorted(more.verdicts[0].differences) == [0, 1]
    assert read_json(out / "recipe.json")["options"]["seeds"] == 2


@pytest.mark.usefixtures("no_page")
def test_a_failed_run_is_told_and_can_be_tried_again(folder: Path) -> None:
    """Here the records of one run cannot be written, as a folder stands in their place."""
    text, out = folder / "words.txt", folder / "fails"
    plan = compare(text=text, seeds=1, out=out, **QUICK)  # type: ignore[arg-type]
    broken = out / "runs" / plan.runs[0].config.id
    for name in ("result.json", "records.jsonl", "checkpoint.pt"):
        (broken / name).unlink()
    (broken / "records.jsonl").mkdir()
    found = compare(out=out, resume=True)
    assert [outcome.run for outcome in found.failed] == [broken.name]
    assert "IsADirectoryError" in found.failed[0].error
    assert f"FAILED {broken.name}" in str(found)
    assert len(found.runs) == 1
    assert found.verdicts[0].sentence.startswith("It needs the final validation loss of ")
    (broken / "records.jsonl").rmdir()
    healed = compare(out=out, resume=True)
    assert not healed.failed
    assert len(healed.runs) == 2


def test_the_folder_is_locked_while_it_is_written(found: Comparison) -> None:
    """A second writer is told so, and touches nothing."""
    with locked(found.out), pytest.raises(StateError) as caught:
        compare(out=found.out, resume=True)
    assert str(caught.value) == (
        "compare: one process at a time may write to a folder; another one is writing to "
        f"'{found.out}'. Wait until it is done, or choose another out."
    )


def test_default_folders(tmp_path: Path) -> None:
    """The first free number."""
    assert new_name("demo", tmp_path) == tmp_path / "demo-1"
    (tmp_path / "demo-1").mkdir()
    (tmp_path / "demo-3").mkdir()
    assert new_name("demo", tmp_path) == tmp_path / "demo-2"


@pytest.mark.usefixtures("no_page")
def test_a_changed_text_is_refused(tmp_path: Path) -> None:
    """Runs on two texts are no comparison."""
    path, out = small.write_text(tmp_path), tmp_path / "out"
    compare(text=path, seeds=1, out=out, **QUICK)  # type: ignore[arg-type]
    path.write_text(path.read_text() + "!")
    with pytest.raises(Exception) as caught:  # noqa: PT011
        compare(out=out, resume=True)
    assert str(caught.value) == (
        "compare: resume needs the text that the folder was started with; "
        f"'{path}' is another text now."
    )


def test_a_run_that_is_gone_is_refused(found: Comparison) -> None:
    """A folder of a version whose recipe was another."""
    path = found.out / "recipe.json"
    before = path.read_text()
    plan: dict[str, Any] = json.loads(before)
    path.write_text(json.dumps({**plan, "runs": [*plan["runs"], "other-run"]}))
    with pytest.raises(StateError) as caught:
        compare(out=found.out, resume=True)
    path.write_text(before)
    assert str(caught.value) == (
        "compare: resume needs the recipe that the folder was started with; "
        "this version of normkit has no run other-run."
    )


def test_records_can_be_read_by_hand(found: Comparison) -> None:
    """The file of each run is what ``records()`` gives."""
    by_hand = [
        row for run in found.runs for row in records.read(found.out / "runs" / run.config.id / FILE)
    ]
    assert by_hand == found.records()


FILE = "records.jsonl"


@pytest.mark.usefixtures("no_page")
@pytest.mark.parametrize("name", ["records.jsonl", "result.json"])
def test_a_damaged_run_is_refused(folder: Path, name: str) -> None:
    """A cut file of a finished run would change the verdicts without a word."""
    out, text = folder / f"damaged-{name}", folder / "words.txt"
    made = compare(text=text, seeds=1, out=out, **QUICK)  # type: ignore[arg-type]
    run = out / "runs" / made.runs[0].config.id
    (run / name).write_bytes((run / name).read_bytes()[:20])
    with pytest.raises(StateError, match=r"^compare: the files of a finished run must be as"):
        compare(out=out, resume=True)
