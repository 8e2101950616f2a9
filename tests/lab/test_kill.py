"""A comparison that is really killed goes on to the same numbers, and finished runs stay."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import normkit.lab
from normkit.lab import records
from normkit.lab.folder import read_json
from tests.lab import small

STEPS = 200
TIMEOUT_S = 240


def command(folder: Path, out: str, *more: str) -> list[str]:
    """A comparison of one norm and three seeds, two at a time: the third is alone at the end."""
    options = ["--norm", "batch_norm", "--steps", str(STEPS), "--seeds", "3", "--batch-size", "2"]
    where = ["--text", str(folder / "words.txt"), "--out", str(folder / out), "--jobs", "2"]
    return [sys.executable, "-m", "normkit", "compare", *options, *where, *more]


def listen_to_ctrl_c() -> None:
    """What a shell starts in the background ignores Ctrl-C, and so does all that it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start(words: list[str]) -> subprocess.Popen[bytes]:
    """In a session of its own, as a terminal would."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        words,
        start_new_session=True,
        preexec_fn=listen_to_ctrl_c,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def wait_until(condition: object, process: subprocess.Popen[bytes]) -> None:
    """Look again and again; a process that ended has failed."""
    stop = time.monotonic() + TIMEOUT_S
    assert callable(condition)
    while not condition():
        assert process.poll() is None, process.communicate()[1].decode()
        assert time.monotonic() < stop
        time.sleep(0.02)


def rows(folder: Path) -> list[dict[str, object]]:
    """All records but the speeds."""
    found = records.read(folder / "records.jsonl")
    return [row for row in found if row["metric"] != "tokens_per_s"]


def descendants(pid: int) -> list[int]:
    """The workers of a process, by the parent that the system names."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, check=True)
    pairs = [line.split() for line in listed.stdout.decode().splitlines()]
    return [int(child) for child, parent in pairs if int(parent) == pid]


def gone(pid: int) -> bool:
    """Whether a process has ended (or only waits to be collected)."""
    found = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, check=False)
    return found.stdout.strip() in (b"", b"Z", b"Z+", b"Zs")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same comparison, never stopped."""
    folder = tmp_path_factory.mktemp("whole")
    small.write_text(folder)
    process = start(command(folder, "out"))
    _, errors = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, errors.decode()
    return folder


def ids(out: Path) -> list[str]:
    """The runs, in the order in which they are trained."""
    runs: list[str] = read_json(out / "recipe.json")["runs"]
    return runs


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT], ids=["SIGKILL", "Ctrl-C"])
def test_goes_on_to_the_same_end(how: signal.Signals, whole: Path, tmp_path: Path) -> None:
    """Stopped in its last run; resumed, it ends with the same bits, and finished runs stay."""
    small.write_text(tmp_path)
    out = tmp_path / "out"
    *first, last = ids(whole / "out")
    process = start(command(tmp_path, "out"))
    wait_until(lambda: (out / "runs" / last / "checkpoint.pt").exists(), process)
    workers = descendants(process.pid)
    assert workers
    process.send_signal(how)
    _, errors = process.communicate(timeout=60)
    if how == signal.SIGINT:
        assert process.returncode == 130
        hint = f"Stopped. To go on: normkit compare --out {out} --resume"
        assert errors.decode().splitlines()[-1] == hint
    stop = time.monotonic() + 60
    while not all(map(gone, workers)):  # a worker ends when its parent does
        assert time.monotonic() < stop
        time.sleep(0.02)
    assert not (out / "runs" / last / "result.json").exists()
    assert not (out / "page.html").exists()
    finished = [run for run in first if (out / "runs" / run / "result.json").exists()]
    assert finished  # the last run starts when one of the others has ended
    before = {run: (out / "runs" / run / "result.json").read_bytes() for run in finished}
    result = normkit.lab.compare(out=out, resume=True, jobs=2)
    assert [run.config.id for run in result.runs] == [*first, last]
    for run, result_file in before.items():
        assert (out / "runs" / run / "result.json").read_bytes() == result_file
    for run in (*first, last):
        assert rows(out / "runs" / run) == rows(whole / "out" / "runs" / run)
    assert result.page.exists()
