"""Finds out how many processors (logical CPUs) a rank has. The rank's computation and communication
share these processors."""

from __future__ import annotations

from dataclasses import dataclass

from gradsync.estimates import trimmed_mean
from gradsync.schema import Launch


@dataclass(frozen=True)
class Processors:
    """How many processors (logical CPUs) one rank has (`available`), and how many its computation
    keeps busy (`computing`). `available` is the number of the host's processors divided by the
    number of ranks on that host, but at least `computing`."""

    available: float
    computing: float

    @classmethod
    def of(cls, launch: Launch) -> Processors:
        """Returns the processors of a rank in a recorded launch (a start of the script). All ranks
        whose host has the same name as rank 0's host are assumed to share the processors of that
        host equally.

        `computing`: the CPU-seconds that a rank needed per second of its steps without
        synchronisation. Time for which the rank's main thread waited for a CPU is included. If the
        recording has no CPU times, for example because the model was on a GPU, `computing` is rank
        0's number of compute threads. If `computing` is more than the host's processors divided by
        its ranks, `available` is set to `computing`. The lack of processors already slowed down the
        measured computation, and simulations must not slow it down again.
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
    """Returns the factor by which to multiply the assumed error of a prediction, which was fitted
    to measured steps on CPUs. The factor is the fraction of a rank's processors that computation
    uses, multiplied by `used` (how many processors communication uses) if `used` is below 1. So the
    assumed error is smaller if computation leaves processors idle for communication, because such
    steps are predicted better. For a launch on GPUs, where the error of predictions is unknown,
    error_part() returns 1."""
    if launch.device != "cpu":
        return 1
    processors = Processors.of(launch)
    return processors.computing / processors.available * min(1, used)
