"""A model's gradients as they become ready in backward."""

from __future__ import annotations

from gradsync.clock import Mark


class Arrivals:
    """Which gradients have come, and when.

    `since_update`: how many since an optimizer last stepped. `sparse`: a parameter's name, if it
    got a sparse gradient. `begin` and `ready`: marks of the begin of the last backward, and of the
    moments when gradients were ready, by parameter; None if that has none. In one backward several
    nested passes, such as those of reentrant checkpoints, may add to a parameter's gradient: then
    it is ready when the last one has.
    """

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
        """A gradient has come. Returns whether it comes no more in this backward, if this is like
        those before.
        """
        self.since_update += 1
        self._times[i] += 1
        self._most_times[i] = max(self._most_times[i], self._times[i])
        return self._times[i] == self._most_times[i]

    def end_backward(self) -> bool:
        """Returns whether gradients have come in it. A backward that had begun before recording is
        none.
        """
        has_come = self._before is not None and self.since_update != self._before
        self._before = None
        return has_come
