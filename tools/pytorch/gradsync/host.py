"""Reads the processor's name, the number of usable CPUs, and how long this process's main thread
has waited for a CPU."""

from __future__ import annotations

import os
import pathlib
import platform
import re
import subprocess

CPUINFO = pathlib.Path("/proc/cpuinfo")  # Linux alone has it
SCHEDSTAT = pathlib.Path("/proc/self/schedstat")  # Linux, too
SYSCTL_SECONDS = 5


def processor_name() -> str:
    """Returns the processor's name as its maker gives it; the architecture, such as "x86_64", if
    the name is unknown."""
    try:
        match = re.search(r"^model name\s*: (.*)$", CPUINFO.read_text(), re.MULTILINE)
    except OSError:
        return _name_on_macos() or platform.machine()
    return match[1] if match else platform.machine()


def _name_on_macos() -> str:
    """Returns the processor's name that sysctl prints; empty if sysctl fails or is missing."""
    command = ["sysctl", "-n", "machdep.cpu.brand_string"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SYSCTL_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def usable_cores() -> int:
    """Returns the number of logical CPUs on which this process may run."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1  # macOS does not bind processes to CPUs


def waited_for_cpu_ns() -> int:
    """Returns how many nanoseconds this process's main thread has waited for a CPU since the
    process started. Returns 0 if the system does not tell."""
    try:
        return int(SCHEDSTAT.read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return 0
