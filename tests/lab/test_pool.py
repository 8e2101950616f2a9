"""Worker processes: runs side by side; one that fails or dies is told and the others go on."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from normkit.lab.config import RunConfig
from normkit.lab.folder import read_json, run_folder
from normkit.lab.pool import Outcome, Pool, _reason
from tests.lab import small

LONG = {"training": {"steps": 100_000, "interval": 50}}


class Listener:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.began: list[str] = []
        self.ends: list[Outcome] = []

    def started(self, run: str) -> None:
        self.began.append(run)

    def progress(self, run: str, step: int, loss: float, tokens_per_s: float) -> None:
        pass

    def ended(self, outcome: Outcome) -> None:
        self.ends.append(outcome)


def pool(folder: Path) -> Pool:
    """A pool on the small text."""
    return Pool(folder / "out", text=str(small.write_text(folder)), threads=1)


def alive(pid: int) -> bool:
    """Whether the process is there."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_run_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    """One has a model that cannot be built, one another text, one diverges, one is fine."""
    good = small.config()
    wrong_model = small.config(norm="group_norm")
    wrong_text = RunConfig.from_dict(
        {**good.to_dict(), "task": {**good.to_dict()["task"], "text_sha256": "0"}}
    )
    diverging = small.config(lr=1e20, norm="no_norm", training={"clip_norm": None, "steps": 40})
    configs = [wrong_model, wrong_text, diverging, good]
    listener = Listener()
    outcomes = pool(tmp_path).run(configs, jobs=1, listener=listener)
    assert outcomes == listener.ends
    assert listener.began == [config.id for config in configs]
    assert [outcome.status for outcome in outcomes] == ["failed", "failed", "diverged", "finished"]
    assert outcomes[0].error.startswith("OptionError: TransformerConfig: ")
    assert "'group_norm'" in outcomes[0].error
    assert outcomes[1].error == (
        "DataError: compare: the text must not change between the start of a comparison and its "
        f"end; '{tmp_path / 'words.txt'}' is another text now."
    )
    for config, outcome in zip(configs, outcomes, strict=True):
        folder = run_folder(tmp_path / "out", config.id)
        assert (folder / "result.json").exists() == (outcome.status != "failed")
        assert (folder / "error.txt").exists() == (outcome.status == "failed")
    assert "Traceback" in (run_folder(tmp_path / "out", wrong_model.id) / "error.txt").read_text()
    result = read_json(run_folder(tmp_path / "out", good.id) / "result.json")
    assert (outcomes[3].step, outcomes[3].tokens_per_s) == (6, result["tokens_per_s"])


def test_a_worker_that_is_killed_is_replaced(tmp_path: Path) -> None:
    """As the system kills a process when memory runs out."""
    victim, other = small.config(**LONG), small.config(seed=1)

    class Killer(Listener):
        def progress(self, run: str, *news: Any) -> None:
            os.kill(self.pid(), signal.SIGKILL)

        def pid(self) -> int:
            (worker,) = workers._workers
            return worker.pid

    workers, listener = pool(tmp_path), Killer()
    outcomes = workers.run([victim, other], jobs=1, listener=listener)
    assert [(o.run, o.status) for o in outcomes] == [(victim.id, "failed"), (other.id, "finished")]
    assert outcomes[0].error == (
        "the worker process was killed by SIGKILL (the system may have run out of memory)"
    )


def test_an_exception_stops_the_workers(tmp_path: Path) -> None:
    """Ctrl-C, say: no process is left, and what stands on disk can go on."""
    config = small.config(**LONG)
    seen: list[int] = []

    class Stopper(Listener):
        def progress(self, run: str, step: int, *news: Any) -> None:
            (worker,) = workers._workers
            seen.append(worker.pid)
            if step > 50:
                raise KeyboardInterrupt

    workers = pool(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        workers.run([config, small.config(seed=1)], jobs=1, listener=Stopper())
    assert seen
    assert not any(map(alive, seen))
    folder = run_folder(tmp_path / "out", config.id)
    assert (folder / "checkpoint.pt").exists()
    assert not (folder / "result.json").exists()


def test_two_at_a_time(tmp_path: Path) -> None:
    """Both are started before the first has ended; no more workers than runs."""
    listener = Listener()
    order: list[str] = []

    class Order(Listener):
        def started(self, run: str) -> None:
            order.append("start")

        def ended(self, outcome: Outcome) -> None:
            order.append("end")

    listener = Order()
    configs = [small.config(seed=seed) for seed in range(2)]
    outcomes = pool(tmp_path).run(configs, jobs=5, listener=listener)
    assert order == ["start", "start", "end", "end"]
    assert {outcome.run for outcome in outcomes} == {config.id for config in configs}


def test_nothing_to_do(tmp_path: Path) -> None:
    """No worker is started."""
    assert pool(tmp_path).run([], jobs=2, listener=Listener()) == []


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (3, "the worker process ended with exit code 3"),
        (-signal.SIGSEGV, "the worker process was killed by SIGSEGV"),
        (
            -signal.SIGKILL,
            "the worker process was killed by SIGKILL (the system may have run out of memory)",
        ),
    ],
)
def test_reasons(code: int, words: str) -> None:
    """What an exit code means."""
    assert _reason(code) == words
