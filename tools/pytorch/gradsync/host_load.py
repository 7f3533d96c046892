"""Measures how busy this host is, from /proc/stat and /proc/loadavg of Linux."""

from __future__ import annotations

import pathlib
from dataclasses import dataclass

from gradsync.schema import HostLoad

STAT = pathlib.Path("/proc/stat")
LOAD_AVERAGE = pathlib.Path("/proc/loadavg")
# Columns of the line "cpu" of /proc/stat: time of all CPUs since the host was started. The last two
# columns are guests', which `user` and `nice` contain (proc_stat(5)).
COLUMNS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


@dataclass(frozen=True)
class CpuTimes:
    """CPU times and load average of the host. The CPU times are summed over CPUs, in ticks, since
    the host started; `load_average` is that of the last minute. `idle` includes waiting for I/O.
    """

    total: int
    idle: int
    steal: int
    load_average: float

    @classmethod
    def now(cls) -> CpuTimes | None:
        """Returns the host's present CPU times and load average. Returns None, as on macOS, if
        /proc/stat or /proc/loadavg cannot be read or lacks a value."""
        try:
            name, *columns = STAT.read_text().split("\n", 1)[0].split()
            average = float(LOAD_AVERAGE.read_text().split()[0])
            ticks = dict(zip(COLUMNS, map(int, columns), strict=False))
        except (OSError, ValueError, IndexError):
            return None
        if name != "cpu" or len(ticks) < len(COLUMNS):
            return None
        return cls(
            total=sum(ticks.values()),
            idle=ticks["idle"] + ticks["iowait"],
            steal=ticks["steal"],
            load_average=average,
        )


def load_between(begin: CpuTimes | None, end: CpuTimes | None) -> HostLoad | None:
    """Returns how busy the host was between two moments, with the load average at the second
    moment; None if a moment is None, or if no time has passed."""
    if begin is None or end is None or end.total <= begin.total:
        return None
    total = end.total - begin.total
    # The kernel's counters of idle time can go backwards a bit (proc_stat(5)).
    idle = min(max(end.idle - begin.idle, 0), total)
    steal = min(max(end.steal - begin.steal, 0), total - idle)
    return HostLoad(
        steal_part=steal / total,
        busy_part=(total - idle - steal) / total,
        load_average=end.load_average,
    )
