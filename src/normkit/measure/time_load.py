"""Whether other work disturbed a measurement of time."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import torch

from normkit.measure.time import Rounds, Timing, time_interleaved

COPY_ELEMENTS = 4 * 1024 * 1024  # of float32: 16 MiB
DRIFT = 0.15  # the copy may be so much faster or slower at the end
BUSY = 0.1  # of the processor, by other processes
STAT = Path("/proc/stat")


@dataclass(frozen=True, kw_only=True)
class Moment:
    """What the machine was doing at one moment.

    Attributes:
        waiting: processes that ran or wanted to, averaged over the last minute; None where the
            system does not tell.
        copy: times of a copy of 16 MiB.
        busy_s, own_s: CPU seconds since the machine started by all, and by this process.
    """

    waiting: float | None
    copy: Timing
    busy_s: float | None
    own_s: float


@dataclass(frozen=True, kw_only=True)
class Load:
    """What the machine did beside a measurement.

    Attributes:
        cores: that this process may use.
        waiting: load average over the minute before; None where the system does not tell.
        others: share of the processor that other processes took meanwhile; None where unknown.
        copy_start_us, copy_end_us: median of a copy of 16 MiB, before and after.
    """

    cores: int
    waiting: float | None
    others: float | None
    copy_start_us: float
    copy_end_us: float

    @property
    def signs(self) -> tuple[str, ...]:
        """What says that the machine was loaded, a sentence each; empty where nothing does."""
        found = []
        if self.others is not None and self.others > BUSY:
            found.append(f"other processes took {self.others:.0%} of the processor")
        if self.others is None and self.waiting is not None and self.waiting > BUSY * self.cores:
            found.append(f"the load average was {self.waiting:.2f} before the start")
        drift = self.copy_end_us / self.copy_start_us
        if not 1 / (1 + DRIFT) <= drift <= 1 + DRIFT:
            came = f"{self.copy_start_us:.0f} us at the start and {self.copy_end_us:.0f} us"
            found.append(f"a copy of 16 MiB took {came} at the end")
        return tuple(found)


def moment() -> Moment:
    """Look at the machine now; takes a fraction of a second."""
    waiting = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    x = torch.ones(COPY_ELEMENTS)
    copy = time_interleaved({"copy": x.clone}, rounds=Rounds(budget_s=0.15, least=11))["copy"]
    return Moment(waiting=waiting, copy=copy, busy_s=_busy_s(), own_s=_own_s())


def load(start: Moment, end: Moment, *, elapsed_s: float) -> Load:
    """Compare two moments that are ``elapsed_s`` apart.

    Example:
        >>> first = moment()
        >>> load(first, moment(), elapsed_s=1.0).cores >= 1
        True
    """
    cores = usable_cores()
    others = None
    if start.busy_s is not None and end.busy_s is not None:
        foreign_s = (end.busy_s - start.busy_s) - (end.own_s - start.own_s)
        others = max(0.0, foreign_s / (elapsed_s * (os.cpu_count() or 1)))
    return Load(
        cores=cores,
        waiting=start.waiting,
        others=others,
        copy_start_us=start.copy.p50,
        copy_end_us=end.copy.p50,
    )


def usable_cores() -> int:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _busy_s() -> float | None:
    """CPU seconds that any process took, and those that another machine on this host took."""
    if not STAT.is_file():
        return None
    return busy_seconds(STAT.read_text(encoding="utf-8"), os.sysconf("SC_CLK_TCK"))


def busy_seconds(stat: str, ticks_per_s: int) -> float:
    """Read /proc/stat: user, nice, system, interrupts and stolen time, without idle and waiting.

    Example:
        >>> busy_seconds("cpu  100 0 50 900 40 3 2 5 0 0", 100)
        1.6
    """
    user, nice, system, _, _, irq, softirq, steal = map(int, stat.split()[1:9])
    return (user + nice + system + irq + softirq + steal) / ticks_per_s


def _own_s() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
