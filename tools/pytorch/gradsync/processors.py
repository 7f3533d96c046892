"""Finds out how many processors a rank has, which its computation and communication share."""

from __future__ import annotations

from dataclasses import dataclass

from gradsync.estimates import trimmed_mean
from gradsync.schema import Launch


@dataclass(frozen=True)
class Processors:
    """Processors of one rank. `computing`: the number that its computation keeps busy. `available`:
    its share of the host's processors, which is their number divided by the number of ranks there,
    but at least `computing`."""

    available: float
    computing: float

    @classmethod
    def of(cls, launch: Launch) -> Processors:
        """Returns the processors of a rank of a recorded launch. Ranks with the same host name
        share the host's processors equally.

        `computing`: the CPU-seconds that a rank used in each second of steps without
        synchronisation. If a recording is older and lacks CPU times, it is the number of threads.
        If a rank has more threads than processors, the measured computation was already slowed
        down, and must not be slowed down again.
        """
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
    """Returns the factor by which the error of predictions, as fitted on CPUs, is multiplied. It is
    the fraction of a rank's processors that computation uses, times `used`, the number of
    processors that communication uses meanwhile, but at most 1. So the error is smaller if
    computation and communication do not share processors, because such steps are predicted better.
    On GPUs, where the error is unknown, the factor is 1.
    """
    if launch.device != "cpu":
        return 1
    processors = Processors.of(launch)
    return processors.computing / processors.available * min(1, used)
