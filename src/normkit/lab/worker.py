"""A worker process: takes jobs as JSON lines on stdin, tells how they go as JSON lines on stdout.

Started by :mod:`normkit.lab.pool` as ``python -m normkit.lab.worker THREADS``. When stdin ends,
because the parent is done or dead, the process ends at once: a run on disk is always resumable.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import traceback
from pathlib import Path
from typing import IO, Any

import torch

from normkit.errors import DataError, sentence
from normkit.lab.config import RunConfig
from normkit.lab.run import run
from normkit.lab.task import TextTask
from normkit.lab.text import load_text


def main(threads: int) -> None:
    """Work until stdin ends."""
    torch.set_num_threads(threads)
    channel = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    sys.stdout = sys.stderr  # whatever a library prints must not enter the channel
    jobs: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=_read, args=(sys.stdin, jobs), daemon=True).start()
    tasks: dict[str, TextTask] = {}
    while True:
        _work(jobs.get(), tasks, channel)


def _read(stdin: IO[str], jobs: queue.Queue[dict[str, Any]]) -> None:
    for line in stdin:
        jobs.put(json.loads(line))
    os._exit(0)


def _work(job: dict[str, Any], tasks: dict[str, TextTask], channel: IO[str]) -> None:
    def tell(kind: str, **news: object) -> None:
        print(json.dumps({"kind": kind, **news}), file=channel, flush=True)

    def report(step: int, loss: float, tokens_per_s: float) -> None:
        tell("progress", step=step, loss=loss, tokens_per_s=tokens_per_s)

    try:
        config = RunConfig.from_dict(job["config"])
        key = json.dumps(job["config"]["task"], sort_keys=True)
        if key not in tasks:
            tasks[key] = _task(config, job["text"])
        result = run(config, tasks[key], Path(job["folder"]), report)
        tell("done", result=result)
    except Exception as error:  # told to the parent, whose other runs go on
        tell("failed", error=_one_line(error), traceback=traceback.format_exc())


def _task(config: RunConfig, path: str | None) -> TextTask:
    text = load_text(path)
    if text.sha256 != config.task.text_sha256:
        rule = "the text must not change between the start of a comparison and its end"
        raise DataError(sentence("compare", rule, f"'{text.name}' is another text now"))
    return TextTask(text, config.task)


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


if __name__ == "__main__":
    main(int(sys.argv[1]))
