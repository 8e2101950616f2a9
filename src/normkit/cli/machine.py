"""Facts about this machine and this installation, as long-form rows."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

import normkit
from normkit.errors import EXTRA
from normkit.kernels import cpu
from normkit.measure.time_load import usable_cores

GIB = 1024**3
_DISTRIBUTIONS = {"vl_convert": "vl-convert-python"}
# What kernels for normalization could use, under the names that Linux gives them.
_FLAGS = (
    *("sse4_2", "avx", "f16c", "fma", "avx2", "avx_vnni", "avx512f", "avx512bw", "avx512_bf16"),
    *("avx512_fp16", "avx512_vnni", "amx_tile", "amx_bf16", "asimd", "asimdhp", "bf16", "sve"),
    *("sve2", "svebf16"),
)
_ORIGINS = {
    "package": "the wheel that was installed",
    "cache": "compiled here, kept in the cache",
    "temporary": "compiled here, for this process alone",
}


@dataclass(frozen=True, kw_only=True)
class Fact:
    """One line of ``normkit info``: a group, a name, a value."""

    group: str
    name: str
    value: str


def machine_facts() -> list[Fact]:
    """Collect all facts, in the order in which they are shown."""
    groups = {
        "versions": _versions(),
        "devices": _devices(),
        "threads": _threads(),
        "CPU": _cpu(),
        "CPU kernels": _cpu_kernels(),
        "memory": _memory(),
    }
    return [
        Fact(group=group, name=name, value=value)
        for group, rows in groups.items()
        for name, value in rows
    ]


def _versions() -> Iterator[tuple[str, str]]:
    yield "normkit", normkit.__version__
    yield "python", platform.python_version()
    yield "torch", torch.__version__
    for module in EXTRA:
        try:
            yield module, version(_DISTRIBUTIONS.get(module, module))
        except PackageNotFoundError:
            yield module, "not installed"


def _devices() -> Iterator[tuple[str, str]]:
    yield "cpu", _cpu_model()
    if torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            yield f"cuda:{index}", torch.cuda.get_device_name(index)
    else:
        built = torch.version.cuda
        yield "cuda", f"torch built for CUDA {built}, no GPU" if built else "torch built without it"
    if torch.backends.mps.is_available():
        yield "mps", "available"
    elif sys.platform == "darwin":
        yield "mps", "not available"


def _threads() -> Iterator[tuple[str, str]]:
    yield "cores for this process", str(usable_cores())
    yield "torch, inside an op", str(torch.get_num_threads())
    yield "torch, between ops", str(torch.get_num_interop_threads())
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        if name in os.environ:
            yield name, os.environ[name]


def _cpu() -> Iterator[tuple[str, str]]:
    yield "architecture", platform.machine()
    yield "torch uses", torch.backends.cpu.get_cpu_capability()
    flags = _cpuinfo("flags") or _cpuinfo("Features")
    if flags is None:
        yield "has", "unknown: this system has no /proc/cpuinfo"
    else:
        yield "has", " ".join(name for name in _FLAGS if name in flags.split())


def _cpu_kernels() -> Iterator[tuple[str, str]]:
    """Which library runs, or why none does; asking compiles none."""
    found = cpu.status()
    if found.file is None:
        yield "library", f"none: {found.reason}"
        return
    yield "library", str(found.file)
    yield "from", _ORIGINS[found.origin]
    yield "compiled for", ", ".join(found.isas)
    yield "runs with", str(found.isa)


def _cpu_model() -> str:
    return _cpuinfo("model name") or platform.processor() or platform.machine()


def _memory() -> Iterator[tuple[str, str]]:
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    yield "machine", f"{total / GIB:.1f} GiB"
    limit = _text("/sys/fs/cgroup/memory.max").strip()
    if limit.isdigit():
        yield "limit of the container", f"{int(limit) / GIB:.1f} GiB"
    available = _field(_text("/proc/meminfo"), "MemAvailable")
    if available is not None:
        yield "free for programs", f"{int(available.split()[0]) / 1024**2:.1f} GiB"


def _cpuinfo(name: str) -> str | None:
    return _field(_text("/proc/cpuinfo"), name)


def _field(text: str, name: str) -> str | None:
    """Read the first ``name : value`` line of a /proc file."""
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return None


def _text(path: str) -> str:
    """Read a file that only some systems have; empty where it is missing."""
    file = Path(path)
    return file.read_text(encoding="utf-8") if file.is_file() else ""
