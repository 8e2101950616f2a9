"""Every instruction set of the library that this processor has, each in a process of its own."""

from __future__ import annotations

import ctypes.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from normkit.kernels import cpu

ROOT = Path(__file__).parents[2]
# glibc's checks of the end of each block that is freed.
WATCHFUL = {"LD_PRELOAD": "libc_malloc_debug.so.0", "MALLOC_CHECK_": "3"}


@pytest.mark.slow
@pytest.mark.parametrize("isa", ["baseline", "avx2", "avx512"])
def test_within_the_bound_and_the_memory(isa: str) -> None:
    environment = {**os.environ, "NORMKIT_CPU_ISA": isa, "PYTHONPATH": os.pathsep.join(sys.path)}
    if ctypes.util.find_library("c") == "libc.so.6":
        environment |= WATCHFUL
    command = [sys.executable, "-W", "error", "-m", "tests.norms.isa_child"]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "cannot be preloaded" not in done.stderr
    # A library without it, or a processor: the baseline runs instead.
    known = isa in cpu.status().isas and cpu.isa() != "baseline"
    assert done.stdout.split() in ([[isa]] if known and isa != "avx512" else [[isa], ["baseline"]])
