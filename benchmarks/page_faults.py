"""What fresh memory costs: time and page faults of a 128 MiB copy, and what helps a user.

    python benchmarks/page_faults.py

The kernel hands out memory page by page, at the first write, and zeroes each page. An op that
returns a tensor as large as that pays for it in every call, unless the allocator keeps what was
freed. Each setting is tried in processes of its own; prints a table for docs/performance.md.
"""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys

MIB, REPEATS, PROCESSES = 128, 15, 3
KEEP = "glibc.malloc.mmap_threshold=1073741824:glibc.malloc.trim_threshold=4294967296"
SETTINGS: dict[str, dict[str, str]] = {
    "nothing set": {},
    "THP_MEM_ALLOC_ENABLE=1 (torch asks for huge pages)": {"THP_MEM_ALLOC_ENABLE": "1"},
    "GLIBC_TUNABLES=glibc.malloc.hugetlb=1 (glibc asks)": {
        "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"
    },
    f"GLIBC_TUNABLES={KEEP} (glibc keeps what is freed)": {"GLIBC_TUNABLES": KEEP},
}
CODE = f"""
import resource, statistics, time, torch
x = torch.ones({MIB} * 2**18)
out = x.clone()
def tried(copy):
    times, faults = [], []
    for number in range({REPEATS} + 3):
        before, start = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, time.perf_counter()
        result = copy()
        times.append(1e3 * (time.perf_counter() - start))
        faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
        del result
    return statistics.median(times[3:]), statistics.median(faults[3:])
print(*tried(x.clone), *tried(lambda: out.copy_(x)))
"""


def tried(setting: dict[str, str]) -> list[float]:
    """Milliseconds and faults of a fresh copy, and of one into memory that is there."""
    own = {k: v for k, v in os.environ.items() if k not in ("GLIBC_TUNABLES", *setting)}
    runs = [
        subprocess.run(
            [sys.executable, "-c", CODE],
            env={**own, **setting},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for _ in range(PROCESSES)
    ]
    return [statistics.median(map(float, column)) for column in zip(*runs, strict=True)]


def main() -> None:
    """Print the table."""
    print(f"{platform.platform()}, {os.cpu_count()} cores")
    print("| environment | fresh copy | page faults | copy into memory that is there | faults |")
    print("|---|---|---|---|---|")
    for name, setting in SETTINGS.items():
        fresh_ms, fresh, reused_ms, reused = tried(setting)
        print(f"| {name} | {fresh_ms:.0f} ms | {fresh:.0f} | {reused_ms:.0f} ms | {reused:.0f} |")


if __name__ == "__main__":
    main()
