"""A run on disk: what it writes, how it goes on after it was cut off, how it diverges."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from normkit.lab import records
from normkit.lab.config import RunConfig
from normkit.lab.folder import read_json
from normkit.lab.records import Record
from normkit.lab.run import _first_bad, run
from normkit.lab.train import Trainer
from tests.lab import small


class CutOffError(Exception):
    """Stands for a kill."""


def train(config: RunConfig, folder: Path) -> dict[str, Any]:
    """Run to the end."""
    return run(config, small.task(config), folder, small.ignore)


def rows(folder: Path) -> list[dict[str, Any]]:
    """All records but the speeds, which no two runs share."""
    found = records.read(folder / "records.jsonl")
    return [row for row in found if row["metric"] != "tokens_per_s"]


def cut_off_before(step: int, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Let an update raise; the call that is returned puts the update back."""
    update = Trainer.update

    def cut(self: Trainer) -> Any:
        if self.step == step:
            raise CutOffError
        return update(self)

    monkeypatch.setattr(Trainer, "update", cut)
    return lambda: monkeypatch.setattr(Trainer, "update", update)


def test_what_is_written(tmp_path: Path) -> None:
    """Config, records, checkpoint, result; nothing half-written is left."""
    config = small.config(training={"steps": 5})
    result = train(config, tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"config.json", "records.jsonl", "checkpoint.pt", "result.json"}
    assert RunConfig.from_json((tmp_path / "config.json").read_text()) == config
    assert read_json(tmp_path / "result.json") == result
    assert (result["run"], result["status"], result["step"]) == (config.id, "finished", 5)
    assert result["tokens"] == 5 * 4 * 8
    assert result["tokens_per_s"] == pytest.approx(result["tokens"] / result["seconds"])
    assert result["versions"]["torch"] == torch.__version__


def test_records_are_long_form(tmp_path: Path) -> None:
    """One row for each step and metric; validation and speed at the end of each interval."""
    config = small.config(norm="batch_norm", training={"steps": 5})
    train(config, tmp_path)
    found = records.read(tmp_path / "records.jsonl")
    keys = ["run", "step", "tokens", "metric", "split", "unit", "value"]
    assert all(list(row) == keys for row in found)
    assert {row["run"] for row in found} == {config.id}

    def steps(metric: str, split: str) -> list[int]:
        return [r["step"] for r in found if (r["metric"], r["split"]) == (metric, split)]

    assert steps("loss", "train") == steps("gradient_norm", "train") == [1, 2, 3, 4, 5]
    ends = [2, 4, 5]
    for metric, split in (
        ("loss", "validation"),
        ("loss", "validation_batch_statistics"),
        ("tokens_per_s", "train"),
    ):
        assert steps(metric, split) == ends
    assert all(row["tokens"] == row["step"] * 4 * 8 for row in found)
    assert {(row["metric"], row["unit"]) for row in found} == {
        ("loss", "nats/character"),
        ("gradient_norm", ""),
        ("tokens_per_s", "tokens/s"),
    }


def test_records_are_what_the_trainer_measured(tmp_path: Path) -> None:
    """The same losses as stepping by hand."""
    config = small.config()
    train(config, tmp_path)
    trainer = Trainer(config, small.task(config))
    losses = [trainer.update()[0].item() for _ in range(6)]
    found = rows(tmp_path)
    train_losses = [r["value"] for r in found if (r["metric"], r["split"]) == ("loss", "train")]
    assert train_losses == losses
    last = [row["value"] for row in found if row["split"] == "validation"][-1]
    assert last == trainer.evaluate()["validation"]


@pytest.mark.parametrize("step", [0, 1, 2, 3, 5])
@pytest.mark.parametrize(
    "changes",
    [
        {"norm": "batch_norm", "shape": "lines"},
        {"model": {"dropout": 0.3}, "training": {"weight_decay": 0.1, "warmup_steps": 4}},
    ],
    ids=["running statistics", "dropout"],
)
def test_goes_on_bit_for_bit(
    step: int, changes: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it was cut off, it ends with the same records, weights and tokens."""
    config = small.config(**changes)
    whole = train(config, tmp_path / "whole")
    put_back = cut_off_before(step, monkeypatch)
    with pytest.raises(CutOffError):
        train(config, tmp_path / "cut")
    assert not (tmp_path / "cut" / "result.json").exists()
    assert (tmp_path / "cut" / "checkpoint.pt").exists() == (step >= 2)
    put_back()
    again = train(config, tmp_path / "cut")
    assert rows(tmp_path / "cut") == rows(tmp_path / "whole")
    assert again["tokens"] == whole["tokens"]
    one, other = (
        torch.load(tmp_path / name / "checkpoint.pt", weights_only=True)["model"]
        for name in ("whole", "cut")
    )
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_only_what_is_missing_is_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second call starts at the checkpoint, not at 0."""
    config = small.config()
    put_back = cut_off_before(5, monkeypatch)
    with pytest.raises(CutOffError):
        train(config, tmp_path)
    put_back()
    cut_off_before(3, monkeypatch)  # would raise if it started before step 4
    train(config, tmp_path)


def test_records_after_the_checkpoint_are_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between records and checkpoint, in the middle of a line: nothing comes twice."""
    config = small.config()
    train(config, tmp_path / "whole")
    put_back = cut_off_before(5, monkeypatch)
    with pytest.raises(CutOffError):
        train(config, tmp_path / "cut")
    put_back()
    path = tmp_path / "cut" / "records.jsonl"
    line = path.read_text().splitlines()[-1]
    with path.open("a") as file:
        file.write(f"{line}\n{line[:20]}")
    assert len(records.read(path)) == len(path.read_text().splitlines()) - 1
    train(config, tmp_path / "cut")
    assert rows(tmp_path / "cut") == rows(tmp_path / "whole")


def test_a_half_written_checkpoint_is_not_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is written aside: what stands there is the one before."""
    config = small.config()
    put_back = cut_off_before(5, monkeypatch)
    with pytest.raises(CutOffError):
        train(config, tmp_path)
    put_back()
    (tmp_path / "checkpoint.pt.part").write_bytes(b"half")
    assert train(config, tmp_path)["status"] == "finished"


def test_divergence_is_a_result(tmp_path: Path) -> None:
    """A learning rate of 1e20 ends the run where its loss is no number, and writes it down."""
    config = small.config(norm="no_norm", lr=1e20, training={"clip_norm": None, "steps": 40})
    result = train(config, tmp_path)
    assert result["status"] == "diverged"
    assert result["step"] < 40
    losses = [row for row in rows(tmp_path) if row["metric"] == "loss" and row["split"] == "train"]
    assert [row["step"] for row in losses] == list(range(1, result["step"] + 1))
    bad = losses[-1]["value"]
    assert bad is None or bad > 10 * math.log(small.task(config).vocabulary)
    assert all(math.isfinite(row["value"]) for row in losses[:-1])
    again = train(config, tmp_path)
    assert (again["status"], again["step"]) == ("diverged", result["step"])


def test_a_broken_model_is_not_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last update may break what no later loss shows; the validation does."""
    monkeypatch.setattr(Trainer, "evaluate", lambda _: {"validation": math.nan})
    result = train(small.config(training={"steps": 2}), tmp_path)
    assert (result["status"], result["step"]) == ("diverged", 2)
    assert rows(tmp_path)[-1]["value"] is None


@pytest.mark.parametrize(
    ("losses", "first"),
    [
        ([1.0, 2.0, 3.0], None),
        ([1.0, math.nan, 3.0], 1),
        ([math.inf, 1.0], 0),
        ([1.0, 90.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], None),  # a spike that it survives
        ([90.0, 1.0, 80.0], 0),
        ([1.0, 50.0, 60.0], 1),
        ([1.0, 500.0, math.nan], 1),
    ],
    ids=str,
)
def test_what_divergence_is(losses: list[float], first: int | None) -> None:
    """A loss that is no number, or an interval whose mean is over the limit (here 30)."""
    assert _first_bad(losses, 30.0) == first


def test_not_finite_is_null(tmp_path: Path) -> None:
    """JSON has no NaN."""
    path = tmp_path / "records.jsonl"
    for value in (math.nan, math.inf, 1.5):
        records.append(path, [Record("r", 1, 8, "loss", "train", value)])
    assert [row["value"] for row in records.read(path)] == [None, None, 1.5]
    assert "NaN" not in path.read_text()
    assert json.loads(path.read_text().splitlines()[0])["unit"] == "nats/character"


def test_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Step, loss and speed, as often as the clock says."""
    monkeypatch.setattr("normkit.lab.run.REPORT_EVERY_S", -1.0)
    config, told = small.config(), []
    run(config, small.task(config), tmp_path, lambda *news: told.append(news))
    losses = [r["value"] for r in rows(tmp_path) if r["metric"] == "loss" and r["split"] == "train"]
    assert [(step, loss) for step, loss, _ in told] == list(enumerate(losses, start=1))
    assert all(speed > 0 for _, _, speed in told)
