"""What ``import normkit`` costs beside ``import torch``."""

from __future__ import annotations

import subprocess
import sys

from normkit.measure.time import Timing

RUNS = 7
CODE = """
import time
start = time.perf_counter_ns()
import torch
middle = time.perf_counter_ns()
import normkit
print((middle - start) / 1000, (time.perf_counter_ns() - middle) / 1000)
"""


def time_import(runs: int = RUNS) -> dict[str, Timing]:
    """Import both in fresh processes: ``torch``, and ``normkit`` once torch is there.

    The first process is not counted: it reads files that those after it find in memory.
    """
    found: dict[str, list[float]] = {"torch": [], "normkit": []}
    for number in range(runs + 1):
        done = subprocess.run(
            [sys.executable, "-c", CODE], capture_output=True, text=True, check=True
        )
        if number:
            for name, time_us in zip(found, done.stdout.split(), strict=True):
                found[name].append(float(time_us))
    return {name: Timing(times_us=tuple(times)) for name, times in found.items()}
