"""Defines questions to `what_if`: a recording, and the link, the number of ranks and the memory for
which it must predict steps."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gradsync import Refused
from gradsync.link import MeasuredLink
from gradsync.link_file import read_link
from gradsync.network import (
    ASSUMED_ERROR,
    Algorithm,
    Network,
    Wire,
    algorithm_of,
    parse_wire,
)
from gradsync.recording import Recording
from gradsync.schema import MOST_RANKS, Launch, Row

# Standard deviation of the logarithm of a collective's time over launches, whose memory addresses
# differ.
LAUNCH_ERROR = 0.03
# The same of measured collectives that are computed for another number of ranks. It was fitted to
# one launch of eight emulated hosts (docs/more_ranks.md).
RING_ERROR = 0.078
MOST_PERCENT = 1000  # of a rank's processors, which may be several
DEFAULT_WITHIN = "200Gbit,3us"  # PCIe 4


@dataclass(frozen=True)
class RecordedLink:
    """The link over which the ranks of a recording communicated. `recording`: the recording from
    which `what_if` predicts, or another one whose file --link names.
    """

    recording: Recording


@dataclass(frozen=True)
class FileLink:
    """A link that a program such as nccl-tests measured, and the path of the program's output."""

    path: str
    measured: MeasuredLink


@dataclass(frozen=True)
class NamedLink:
    """A link for which --link gives a rate and, optionally, a latency; nobody has measured it.
    `network`: how the ranks of the predicted step are divided among hosts, and the links between
    and within these hosts."""

    network: Network


Link = RecordedLink | FileLink | NamedLink


@dataclass(frozen=True)
class Question:
    """A question to the command `what_if`, with the contents of all files that it names.

    `asked_world_size`: the number of ranks in --world_size; None without this flag. `at`: another
    recording of the model, made on the machine for which to predict; None without --at. All
    predicted times of computation are multiplied by `pace`. `processor_share`: how many of a rank's
    CPUs a collective uses while the collective runs, such as 0.5. If `processor_share` is None, the
    measured number is used, or 0 if none was measured. `memory_limit_bytes`: the bytes that a
    rank's tensors may take; None if not given.
    """

    recording: Recording
    link: Link
    asked_world_size: int | None = None
    at: Recording | None = None
    processor_share: float | None = None
    memory_limit_bytes: float | None = None

    @property
    def launch(self) -> Launch:
        return self.recording.first

    @property
    def world_size(self) -> int:
        return self.asked_world_size or self.launch.world_size

    @cached_property
    def script_row(self) -> Row:
        """Returns the settings with which the script's DistributedDataParallel or fully_shard
        synchronises gradients; without either, the default settings of DistributedDataParallel."""
        if self.launch.rows:
            return self.launch.rows[0]
        return Row.by_default("DDP", self.launch.passes)

    @property
    def is_as_recorded(self) -> bool:
        """Returns whether the question has neither --link nor --world_size."""
        is_own_link = isinstance(self.link, RecordedLink) and self.link.recording is self.recording
        return is_own_link and self.asked_world_size is None

    @cached_property
    def pace(self) -> float:
        """Returns the time of a step without synchronisation in `at`, divided by that of such a
        step in `recording`; 1 without `at`. All predicted times of computation are multiplied by
        `pace`."""
        return self.at.none_s / self.recording.none_s if self.at else 1

    @property
    def log_error(self) -> float:
        """Returns how far collectives may differ from their predicted times: the standard deviation
        assumed for the logarithm of a collective's time."""
        if isinstance(self.link, NamedLink):
            return max(LAUNCH_ERROR, ASSUMED_ERROR)
        if self.measured_ranks != self.world_size:
            return max(LAUNCH_ERROR, RING_ERROR)
        return LAUNCH_ERROR

    @property
    def measured_ranks(self) -> int | None:
        """The number of ranks between which the link was measured; None for a rate in --link. For a
        recording of one process, which has no measurements of a link, the number is 1."""
        if isinstance(self.link, NamedLink):
            return None
        if isinstance(self.link, FileLink):
            return self.link.measured.world_size
        return self.link.recording.first.world_size


@dataclass(frozen=True)
class LinkOptions:
    """The values of the flag --link of `what_if` and of the flags that describe this link further.

    `link`: a rate and a latency, such as "25Gbit,5us", or the path of measurements that
    link_file.py reads; None for the recorded link. `ranks_per_host`: the number of ranks that share
    a host's link. `within`: the link between ranks of one host. `algorithm`: the algorithm of
    collectives, a value of network.Algorithm such as "ring"; None for that of the recorded backend
    (network.algorithm_of()). `ranks_per_host`, `within` and `algorithm` may differ from their
    defaults only if `link` is a rate.
    """

    link: str | None = None
    ranks_per_host: int = 1
    within: str = DEFAULT_WITHIN
    algorithm: str | None = None

    def check(self) -> None:
        """Raises Refused if the link is neither a rate nor an existing path, or if another option
        has an invalid value. Also raises Refused if an option other than `link` differs from its
        default, and `link` is no rate. Also raises Refused if `within` differs from its default,
        and `ranks_per_host` is 1."""
        wire = parse_wire(self.link) if self.link else None
        if self.link and not wire and not os.path.exists(self.link):
            meant = meant_by(self.link)
            raise Refused(
                f"--link={self.link}: neither a rate and a latency such as 25Gbit,5us nor a file"
                + (f"; did you mean {meant}?" if meant else "")
            )
        if not parse_wire(self.within):
            raise Refused(
                f"--within={self.within}: expected a rate and a latency such as 25Gbit,5us"
            )
        if self.algorithm not in [None, *(algorithm.value for algorithm in Algorithm)]:
            expected = ", ".join(algorithm.value for algorithm in Algorithm)
            raise Refused(f"--algorithm={self.algorithm}: expected one of {expected}")
        _check_range("ranks_per_host", self.ranks_per_host, 1, MOST_RANKS, int)
        for name in ("ranks_per_host", "within", "algorithm"):
            if getattr(self, name) != getattr(LinkOptions, name) and not wire:
                raise Refused(
                    f"--{name} is for a --link that is a rate and a latency, such as 100Gbit,5us "
                    "(any, if all ranks share a host)"
                )
        if self.within != DEFAULT_WITHIN and self.ranks_per_host == 1:
            raise Refused("--within is for ranks that share a host: --ranks_per_host is 1")

    def choose(self, recording: Recording, world_size: int) -> Link:
        """Returns the link that the options describe. Reads the file if `link` names one. Raises
        Refused if the file cannot be read, or is neither a recording nor measurements of a link. A
        recording of one process, which has no measurements of a link, is not refused here."""
        if not self.link:
            return RecordedLink(recording)
        wire = parse_wire(self.link)
        if wire:
            return NamedLink(self._network(world_size, wire, recording.first.backend))
        measured = read_link(self.link, world_size)
        if isinstance(measured, Recording):
            return RecordedLink(measured)
        return FileLink(self.link, measured)

    def _network(self, world_size: int, between: Wire, backend: str) -> Network:
        within = parse_wire(self.within)
        assert within  # check() has parsed it
        algorithm = Algorithm(self.algorithm) if self.algorithm else algorithm_of(backend)
        return Network(world_size, self.ranks_per_host, between, within, algorithm)


def question_of(
    recording: str | os.PathLike[str],
    options: LinkOptions,
    world_size: int | None = None,
    at: str | os.PathLike[str] | None = None,
    processor_percent: float | None = None,
    memory_limit_bytes: float | None = None,
) -> Question:
    """Makes a Question (what `what_if` is to predict), and reads the files that the arguments name.

    Raises Refused if `options`, `world_size` or `processor_percent` is invalid, or if a file cannot
    be used. Also raises Refused if the recordings `at` and `recording` differ in the sizes of the
    gradients, or in the number of backward passes in a step."""
    (question,) = questions_of(
        recording, [options], [world_size], at, processor_percent, memory_limit_bytes
    )
    return question


def questions_of(
    recording: str | os.PathLike[str],
    links: Sequence[LinkOptions],
    world_sizes: Sequence[int | None],
    at: str | os.PathLike[str] | None = None,
    processor_percent: float | None = None,
    memory_limit_bytes: float | None = None,
) -> list[Question]:
    """Makes one question for each pair of a link and a number of ranks.

    Raises Refused as question_of() does, and if a link or a number of ranks is named twice.
    """
    for options in links:
        options.check()
    for world_size in world_sizes:
        _check_range("world_size", world_size, 1, MOST_RANKS, int)
    _check_once("link", [options.link for options in links])
    _check_once("world_size", world_sizes)
    _check_range("processor_percent", processor_percent, 0, MOST_PERCENT, int, float)
    read = Recording(recording)
    there = Recording(at) if at else None
    if there and (
        there.gradient_bytes != read.gradient_bytes or there.first.passes != read.first.passes
    ):
        raise Refused(f"--at={at}: a recording of other parameters or passes")
    return [
        Question(
            recording=read,
            link=link,
            asked_world_size=world_size,
            at=there,
            processor_share=None if processor_percent is None else processor_percent / 100,
            memory_limit_bytes=memory_limit_bytes,
        )
        for options in links
        for world_size, link in zip(world_sizes, _links(options, read, world_sizes), strict=True)
    ]


def _links(
    options: LinkOptions, recording: Recording, world_sizes: Sequence[int | None]
) -> list[Link]:
    """Returns, for each number in `world_sizes`, the link between that many ranks; None stands for
    the recorded number of ranks."""
    sizes = [world_size or recording.first.world_size for world_size in world_sizes]
    first = options.choose(recording, sizes[0])
    if isinstance(first, RecordedLink):  # the same for all
        return [first] * len(sizes)
    return [first, *(options.choose(recording, size) for size in sizes[1:])]


def _check_once(name: str, values: Sequence[object]) -> None:
    twice = [value for number, value in enumerate(values) if value in values[:number]]
    if twice:
        raise Refused(f"--{name}={twice[0]}: it is named twice")


def _check_range(name: str, value: Any, least: int, most: int, *kinds: type) -> None:
    """Raises Refused if `value` is neither None nor a number from `least` to `most` of one of these
    types."""
    is_number = isinstance(value, kinds)
    if value is not None and not (is_number and least <= value <= most):
        raise Refused(f"--{name}={value!r}: expected {least} to {most}")


def meant_by(link: str) -> str:
    """Returns the valid value of --link that the user probably meant by the wrong value `link`;
    empty if nothing is similar. For a rate in another notation, such as 3GB/s, returns the rate and
    a latency, such as "24Gbit,5us". For another text, returns the most similar path that exists in
    the same directory."""
    match = re.fullmatch(
        r"([\d.]+) *([mgt])i?(b(?:it)?s?)?(?:/s|ps)?(?:[, ]+([\d.]+) *(us|ms)?)?",
        link,
        re.IGNORECASE,
    )
    try:
        meant = _wire_text(match) if match else ""
    except ValueError:  # such as 1.2.3
        meant = ""
    return meant if parse_wire(meant) else _close_path(link)


def _wire_text(match: re.Match[str]) -> str:
    number, prefix, unit, latency, latency_unit = match.groups()
    gbit = float(number) * {"m": 1e-3, "g": 1, "t": 1e3}[prefix.lower()]
    if unit in ("B", "Bs"):  # GB/s, but not GBit/s
        gbit *= 8
    return f"{gbit:g}Gbit,{latency or 5}{(latency_unit or 'us').lower()}"


def _close_path(path: str) -> str:
    folder, slash, name = path.rpartition("/")
    parent = folder + slash
    names = os.listdir(parent or ".") if os.path.isdir(parent or ".") else []
    return "".join(parent + close for close in difflib.get_close_matches(name, names, 1))
