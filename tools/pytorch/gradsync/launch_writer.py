"""Adds the recording of a launch (run of the script) to a file."""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Iterable, Sequence

from gradsync import Refused
from gradsync.collectives import gathered
from gradsync.host_load import CpuTimes, load_between
from gradsync.launch_checks import AGREEING_FIELDS
from gradsync.launch_file import check_usable
from gradsync.recording_file import append_launch
from gradsync.schema import HostLoad, Launch, Memory, Row, Step, json_of
from gradsync.world import World

AGREE = ("parameters", *AGREEING_FIELDS)  # what all launches of one file agree in


class LaunchWriter:
    """The recording of one launch, to which calls of start(), set_passes() and write(), in this
    order, add data. All ranks must call these methods; start() and write() run collectives. Only
    rank 0 reads and writes the file. On rank 0, start() and set_passes() raise UnusableFile if the
    launch cannot be added to the file, for example if the file holds launches of another script or
    machine."""

    def __init__(self, path: str, launch: Launch, world: World) -> None:
        self.launch = launch
        self._path = path
        self._world = world
        self._begin = CpuTimes.now()

    def start(self, optimizers: str) -> None:
        """Called after the first step, when `optimizers`, the names of the model's optimizers, are
        known. Adds the names of the optimizers and of the hosts to the launch. Raises UnusableFile
        on rank 0 if the file cannot be appended to. Also raises UnusableFile on rank 0 if the
        file's first launch differs in a field of AGREE other than `passes`."""
        hosts = gathered(platform.node(), self._world.device)
        self.launch = dataclasses.replace(self.launch, hosts=tuple(hosts), optimizer=optimizers)
        self._check(field for field in AGREE if field != "passes")

    def set_passes(self, passes: int) -> None:
        """Called after the first round, a series of steps of different kinds, when `passes`, the
        number of backward passes in a step, is known. Adds `passes` to the description of this
        launch. Raises UnusableFile on rank 0 if the file cannot be appended to. Also raises
        UnusableFile on rank 0 if the file's first launch has another number of backward passes."""
        self.launch = dataclasses.replace(self.launch, passes=passes)
        self._check(["passes"])

    def _check(self, fields: Iterable[str]) -> None:
        if self._world.rank == 0:
            known = {field: getattr(self.launch, field) for field in fields}
            check_usable(self._path, **known)

    def write(self, steps: Sequence[Step], rows: Sequence[Row], memory: Memory | None) -> None:
        """Adds the launch to the file, with the steps of all ranks; `steps` are those of this rank.
        If the file cannot be written, raises Refused on rank 0, and leaves the file unchanged."""
        ranks = gathered([json_of(step) for step in steps], self._world.device)
        load = load_between(self._begin, CpuTimes.now())
        loads = gathered(load and json_of(load), self._world.device)
        self.launch = dataclasses.replace(
            self.launch,
            rows=tuple(rows),
            memory=memory,
            loads=tuple(map(HostLoad.from_json, loads)) if all(loads) else (),
            ranks=tuple(tuple(map(Step.from_json, own)) for own in ranks),
        )
        if self._world.rank == 0:
            try:
                append_launch(self._path, self.launch)
            except OSError as error:
                raise Refused(f"{self._path} was left as it was: {error.strerror}") from None
