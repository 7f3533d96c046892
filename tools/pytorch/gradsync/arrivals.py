"""Remembers the moments at which a model's gradients become ready in a backward pass."""

from __future__ import annotations

from gradsync.clock import Mark


class Arrivals:
    """Remembers which gradients of a model are ready in the current backward, and when they became
    ready.

    `since_update`: the number of calls of count(), for any parameter, since the model's last
    update. An update that a GradScaler skips also sets `since_update` to 0. `sparse`: the name of a
    parameter that got a sparse gradient; empty if none did. `begin`: the mark that a Clock
    (clock.py) made when the most recent backward began; 0 before the first backward. `ready`: for
    each parameter, the mark that StepRecorder stored when its gradient became ready in that
    backward; None if none was stored. Several nested passes of one backward, such as those of
    reentrant checkpoints, may add to one gradient. Such a gradient counts as ready when the last of
    these passes has added to it."""

    def __init__(self, params: int) -> None:
        self._params = params
        self.since_update = 0
        self.sparse = ""
        self.begin: Mark = 0
        self.ready: list[Mark | None] = [None] * params
        self._before: int | None = None  # since_update when backward began
        self._times = [0] * params  # how often each gradient has come in the last backward
        self._most_times = [1] * params  # the same of all backwards, at most

    def begin_backward(self, moment: Mark) -> None:
        self.begin = moment
        self.ready = [None] * self._params
        self._before = self.since_update
        self._times = [0] * self._params

    def count(self, i: int) -> bool:
        """Called when the gradient of parameter `i` is ready. A gradient becomes ready several
        times in one backward if nested passes, such as those of reentrant checkpoints, add to it.
        Returns False if the gradient became ready more often in an earlier backward than so far in
        this one, so that another nested pass is expected to add to it; else True."""
        self.since_update += 1
        self._times[i] += 1
        self._most_times[i] = max(self._most_times[i], self._times[i])
        return self._times[i] == self._most_times[i]

    def end_backward(self) -> bool:
        """Returns whether the backward that has ended computed gradients of the model. Returns
        False for a backward that was already running when recording began."""
        has_come = self._before is not None and self.since_update != self._before
        self._before = None
        return has_come
