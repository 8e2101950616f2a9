"""Every instruction set that this processor has, each in a process of its own."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from normkit.kernels.cpu.flags import wanted_isas

ROOT = Path(__file__).parents[2]
# glibc's check of the end of each block that is freed.
WATCHFUL = {"LD_PRELOAD": "libc_malloc_debug.so.0", "MALLOC_CHECK_": "3"}


def isas() -> list[str]:
    """Those that run here, as torch sees it."""
    found = torch.backends.cpu.get_cpu_capability()
    count = {"AVX512": 3, "AVX2": 2}.get(found, 1)
    return list(wanted_isas()[:count])


@pytest.mark.slow
@pytest.mark.parametrize("isa", isas())
def test_within_the_bound_and_the_memory(isa: str) -> None:
    environment = {**os.environ, "NORMKIT_CPU_ISA": isa, "PYTHONPATH": os.pathsep.join(sys.path)}
    if platform.libc_ver()[0] == "glibc":
        environment |= WATCHFUL
    command = [sys.executable, "-m", "tests.norms.isa_child"]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == [isa]
