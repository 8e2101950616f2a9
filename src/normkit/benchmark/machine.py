"""Which machine and which versions a number belongs to."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from pathlib import Path

import torch

from normkit._version import __version__
from normkit.benchmark.peers import PEERS
from normkit.measure.time_load import usable_cores

CPUINFO = Path("/proc/cpuinfo")
ALLOCATION = ("GLIBC_TUNABLES", "LD_PRELOAD", "THP_MEM_ALLOC_ENABLE", "OMP_NUM_THREADS")


def machine_facts(device: str) -> dict[str, str]:
    """The processor, what torch makes of it, and what changes how memory is handed out."""
    facts = {
        "processor": _model(),
        "cores": str(usable_cores()),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "system": f"{platform.system()} {platform.machine()}",
    }
    if device == "cuda":
        facts["gpu"] = torch.cuda.get_device_name()
    return facts | {name: os.environ[name] for name in ALLOCATION if name in os.environ}


def versions(peers: Sequence[str]) -> dict[str, str]:
    """Versions of everything that took part."""
    found = {
        "normkit": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
    }
    for name in peers:
        found |= PEERS[name].version()
    return found


def _model() -> str:
    text = CPUINFO.read_text(encoding="utf-8") if CPUINFO.is_file() else ""
    named = [line.partition(":")[2].strip() for line in text.splitlines() if "model name" in line]
    return next(iter(named), platform.processor() or platform.machine())
