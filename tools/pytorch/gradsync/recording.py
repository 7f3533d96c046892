"""Computes values, such as the trimmed mean seconds of a step, from a recording: a file that
`gradsync record` has written.

The fields of a recording, whose times are in nanoseconds, are defined in schema.py.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, median

from gradsync import Refused
from gradsync.estimates import estimate, trimmed_mean
from gradsync.launch_checks import differing_field
from gradsync.recording_file import read_launches
from gradsync.schema import NS, Launch, Row, Step, StepMode

NOTABLE = 0.05  # the smallest part of a step that is told


@dataclass(frozen=True)
class RankTimes:
    """The trimmed mean times, in seconds, of one rank's forward, backward and optimizer in steps
    without synchronisation.

    `forward_s` covers everything before the step's last backward, including earlier passes.
    `backward_s` is the time of the last backward. `between_s` is the trimmed mean time from the
    previous step's end to the step's beginning; unknown times count as 0. `is_slow`: whether the
    rank is slow in at least three quarters of the steps. A rank is slow in a step if its forward,
    backward and optimizer together take over 5 % (NOTABLE) longer than the fastest rank's.
    """

    forward_s: float
    backward_s: float
    optimizer_s: float
    between_s: float
    is_slow: bool

    @property
    def step_s(self) -> float:
        return self.forward_s + self.backward_s + self.optimizer_s


class Recording:
    """The contents of a recording file: the recorded launches (starts) of one script on equal
    machines."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Reads a recording from a file. Raises Refused if read_launches() refuses the file. Also
        raises Refused if launches differ in the bytes of gradients, or if differing_field() returns
        a field, such as `command`."""
        self.path = os.fspath(path)
        self.launches = read_launches(path)
        for number, launch in enumerate(self.launches, 1):
            self._check_agrees(launch, number)

    def _check_agrees(self, launch: Launch, number: int) -> None:
        sizes = [parameter.bytes for parameter in launch.parameters]
        if sizes != self.gradient_bytes or differing_field(self.first, launch):
            raise Refused(
                f"{self.path}, line {number}: another script, model, world or machine, PyTorch or "
                "optimizer than line 1's: move this line to another file"
            )

    @property
    def first(self) -> Launch:
        """The recording's first launch. All launches agree in the bytes of each gradient and in
        AGREEING_FIELDS, except that names of hosts may differ. Which ranks share a host is equal in
        all launches."""
        return self.launches[0]

    @cached_property
    def gradient_bytes(self) -> list[int]:
        """For each parameter, the number of bytes of its gradient in the parameter's dtype."""
        return [parameter.bytes for parameter in self.first.parameters]

    @cached_property
    def total_bytes(self) -> int:
        """The sum of `gradient_bytes`."""
        return sum(self.gradient_bytes)

    @cached_property
    def ready_order(self) -> list[int]:
        """The indices in Launch.parameters, in the order in which the parameters' gradients became
        ready on rank 0 in the first launch. DDP is assumed to fill its buckets in this order. A
        gradient's ready time is the median over the probes, the steps that copy gradients into a
        buffer as DDP does. Raises Refused if rank 0 has no probe in the first launch."""
        ready = [ready_of(step) for step in self.first.ranks[0] if step.mode is StepMode.PROBE]
        if not ready:
            raise Refused(f'{self.path}, line 1: no steps of mode "probe"')
        medians = [median(times) for times in zip(*ready, strict=True)]
        return sorted(range(len(medians)), key=medians.__getitem__)

    def buckets(self, row: Row) -> tuple[tuple[int, ...], ...]:
        """Returns, for each bucket of a DDP with the settings `row`, its parameters' indices in
        Launch.parameters. The buckets are in the order in which DDP sends them.

        When a parameter's gradient becomes ready, the parameter is added to the bucket of its dtype
        that is not yet full. The first bucket of a dtype is full at row.first_bucket_bytes or more,
        each later one at row.bucket_bytes or more. These are DDP's rules
        (torch/csrc/distributed/c10d/reducer.cpp, compute_bucket_assignment_by_size). Buckets that
        are not full when all gradients are ready come last in the result."""
        closed: list[list[int]] = []
        open_buckets: dict[str, list[int]] = {}
        sizes: dict[str, int] = {}
        for parameter in self.ready_order:
            dtype = self.first.parameters[parameter].dtype
            bucket = open_buckets.setdefault(dtype, [])
            bucket.append(parameter)
            held_bytes = sum(self.gradient_bytes[p] for p in bucket)
            if held_bytes >= sizes.get(dtype, row.first_bucket_bytes):
                closed.append(open_buckets.pop(dtype))
                sizes[dtype] = row.bucket_bytes
        return tuple(tuple(bucket) for bucket in [*closed, *open_buckets.values()])

    def bucket_bytes(self, row: Row) -> list[int]:
        """Returns, for each of buckets(row), the bytes of its gradients in the parameters' dtypes,
        even if row.bf16 is True."""
        return [sum(self.gradient_bytes[p] for p in bucket) for bucket in self.buckets(row)]

    def steps(self, mode: StepMode, row: str = "") -> list[list[float]]:
        """Returns, for each launch, the times (step_seconds()) of its steps of this mode. The
        result has no list for a launch without a matching step.

        For the mode SCRIPT, only steps match whose settings (schema.Row) have the name `row`. Other
        modes ignore `row`.
        """
        launches = []
        for launch in self.launches:
            seconds = [
                step_seconds(launch, i)
                for i, step in enumerate(launch.ranks[0])
                if step.mode is mode
                and (mode is not StepMode.SCRIPT or launch.rows[step.row].name == row)
            ]
            if seconds:
                launches.append(seconds)
        return launches

    @cached_property
    def ranks(self) -> list[RankTimes]:
        """Each rank's trimmed mean times in the steps without synchronisation of all launches.
        There must be at least one step without synchronisation."""
        rounds = [
            steps
            for launch in self.launches
            for steps in zip(*launch.ranks, strict=True)
            if steps[0].mode is StepMode.UNSYNCHRONISED
        ]
        return [_rank_times(rounds, rank) for rank in range(self.first.world_size)]

    @cached_property
    def none_s(self) -> float:
        """The trimmed mean of the seconds of all steps without synchronisation, of all launches.
        Raises Refused if no launch has such steps."""
        launches = self.steps(StepMode.UNSYNCHRONISED)
        if not launches:
            raise Refused(f'{self.path}: no steps of mode "none"')
        return estimate(launches).value

    @cached_property
    def own_collectives(self) -> tuple[float, float]:
        """The plain means of Step.own_collectives and of Step.own_bytes over rank 0's steps without
        synchronisation; 0 and 0 if there are none. Step.own_collectives counts the collectives that
        the script itself calls in a step; Step.own_bytes is the sum of their bytes."""
        steps = [
            step
            for launch in self.launches
            for step in launch.ranks[0]
            if step.mode is StepMode.UNSYNCHRONISED
        ]
        if not steps:
            return 0, 0
        return fmean(s.own_collectives for s in steps), fmean(s.own_bytes for s in steps)

    def second_run_error(self, row: str) -> float | None:
        """Returns the time of SCRIPT steps in the second half of the launches, divided by that in
        the first half, minus 1. Both times are trimmed means. Of an odd number of launches, the
        middle one is in the second half. `row`: the name of the settings (schema.Row) of these
        steps.

        Launches without SCRIPT steps of the settings `row` are left out. Returns None if fewer than
        two launches have steps with the settings `row`.
        """
        launches = self.steps(StepMode.SCRIPT, row)
        half = len(launches) // 2
        if not half:
            return None
        first = [seconds for launch in launches[:half] for seconds in launch]
        second = [seconds for launch in launches[half:] for seconds in launch]
        return trimmed_mean(second) / trimmed_mean(first) - 1


def _rank_times(rounds: list[tuple[Step, ...]], rank: int) -> RankTimes:
    """Returns the trimmed mean times of the parts of a step, such as forward, on the rank `rank`.
    `rounds`: for each step without synchronisation, the Step of every rank; at least one."""
    own = [steps[rank] for steps in rounds]
    slow_rounds = sum(
        _alone_ns(steps[rank]) > (1 + NOTABLE) * min(map(_alone_ns, steps)) for steps in rounds
    )
    return RankTimes(
        forward_s=NS * trimmed_mean([step.before_ns for step in own]),
        backward_s=NS * trimmed_mean([step.backward_ns for step in own]),
        optimizer_s=NS * trimmed_mean([step.optimizer_ns for step in own]),
        between_s=NS * trimmed_mean([step.between_ns for step in own]),
        is_slow=4 * slow_rounds >= 3 * len(rounds),
    )


def _alone_ns(step: Step) -> float:
    return step.before_ns + step.backward_ns + step.optimizer_ns


def ready_of(step: Step) -> list[float]:
    """Returns the nanoseconds from the beginning of the step's last backward until each parameter's
    gradient is ready.

    A parameter without a gradient counts as ready when backward has ended.
    """
    return [step.backward_ns if ns < 0 else ns for ns in step.ready_ns]


def begin_of(launch: Launch, step: Step) -> float:
    """Returns when a step begins, in seconds after the beginning of rank 0's first recorded step of
    the launch.

    Returns 0 for every step if the launch ran on several hosts, because their clocks cannot be
    compared.
    """
    if len(set(launch.hosts)) > 1:
        return 0
    return NS * (step.begin_ns - launch.ranks[0][0].begin_ns)


def step_seconds(launch: Launch, i: int) -> float:
    """Returns how many seconds step `i` of the launch takes, from the last rank's beginning to the
    last rank's end. If the launch ran on several hosts, returns the longest of the ranks' step
    times."""
    steps = [own[i] for own in launch.ranks]
    begins = [begin_of(launch, step) for step in steps]
    ends = [begin + NS * step.step_ns for begin, step in zip(begins, steps, strict=True)]
    return max(ends) - max(begins)
