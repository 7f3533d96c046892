"""The processors of a rank, which computation and communication share."""

from __future__ import annotations

from dataclasses import dataclass

from gradsync.estimates import trimmed_mean
from gradsync.schema import Launch


@dataclass(frozen=True)
class Processors:
    """Of one rank: how many it may use, and how many computation uses."""

    available: float
    computing: float

    @classmethod
    def of(cls, launch: Launch) -> Processors:
        """Returns those of a rank of a recorded launch. Ranks whose hosts have one name share its
        processors equally.

        `computing` is the measured CPU time of a second of steps without synchronisation, or, of
        older recordings, the number of threads. With more threads than processors the measured
        computation was already slowed down, and must not be slowed down again.
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
    """Returns how much of the model's error on CPUs counts: the part of a rank's processors that
    computation takes, times what communication uses of one beside it. What does not share
    processors is predicted better. How well steps on GPUs are predicted is unknown: there all of
    the error counts.
    """
    if launch.device != "cpu":
        return 1
    processors = Processors.of(launch)
    return processors.computing / processors.available * min(1, used)
