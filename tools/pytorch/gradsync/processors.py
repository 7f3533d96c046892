"""The processors of a rank, which computation and communication share."""

from __future__ import annotations

from dataclasses import dataclass

from gradsync.estimates import trimmed_mean
from gradsync.schema import Launch


@dataclass(frozen=True)
class Processors:
    """The numbers of processors that a rank may use, and that its computation uses."""

    available: float
    computing: float

    @classmethod
    def of(cls, launch: Launch) -> Processors:
        """Returns the processors of a rank of a recorded launch. Ranks whose hosts have the same
        name share its processors equally.

        `computing` is the CPU time that a second of steps without synchronisation used. Older
        recordings contain only the number of threads. With more threads than processors the
        measured computation was already slowed down, and must not be slowed down again.
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
    """Returns the factor for the model's error, which was fitted on CPUs: the part of a rank's
    processors that computation uses, times the part of a processor that communication uses
    meanwhile. A step whose computation and communication do not share processors is predicted
    better. On GPUs, where the error is unknown, the factor is 1.
    """
    if launch.device != "cpu":
        return 1
    processors = Processors.of(launch)
    return processors.computing / processors.available * min(1, used)
