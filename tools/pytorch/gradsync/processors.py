"""Computes how many processors (logical CPUs) a rank has for its computation and communication."""

from __future__ import annotations

from dataclasses import dataclass

from gradsync.estimates import trimmed_mean
from gradsync.schema import Launch


@dataclass(frozen=True)
class Processors:
    """The number of logical CPUs that one rank has (`available`), and how many of them its
    computation keeps busy (`computing`)."""

    available: float
    computing: float

    @classmethod
    def of(cls, launch: Launch) -> Processors:
        """Returns the processors of a rank in a recorded launch (a start of the script).
        `available` is the number of processors that rank 0 may use, divided by the ranks on its
        host, but at least `computing`. `computing` is a rank's CPU time plus its main thread's wait
        for a CPU, in seconds per second of steps without synchronisation. Without CPU times, as on
        GPUs, `computing` is the number of rank 0's compute threads."""
        ranks_on_host = launch.hosts.count(launch.hosts[0])
        shares = [
            step.cpu_ns / step.step_ns
            for steps in launch.ranks
            for step in steps
            if step.cpu_ns and step.step_ns
        ]
        computing = trimmed_mean(shares) if shares else launch.threads
        return cls(max(computing, launch.cores / ranks_on_host), computing)


def error_part(launch: Launch, used: float = 1) -> float:
    """Returns the factor by which predictions multiply their assumed errors, such as
    REPLICATED_ERROR in replay.py. On GPUs, the factor is 1. On CPUs, the factor is the part of a
    rank's processors that computation keeps busy, multiplied by min(1, `used`). `used`: how many
    processors communication uses."""
    if launch.device != "cpu":
        return 1
    processors = Processors.of(launch)
    return processors.computing / processors.available * min(1, used)
