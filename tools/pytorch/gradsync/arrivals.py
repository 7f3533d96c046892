"""Notes when a model's gradients become ready in backward."""

from __future__ import annotations

from gradsync.clock import Mark


class Arrivals:
    """The gradients of a model that are ready in the current backward, and when they became ready.

    `since_update`: the number of gradients since the last step of an optimizer. `sparse`: the name
    of a parameter that got a sparse gradient. `begin`: the clock's mark at the beginning of the
    last backward. `ready`: for each parameter the clock's mark when its gradient was ready; None if
    it has no gradient. Several nested passes of one backward, such as those of reentrant
    checkpoints, may add to one gradient. Such a gradient counts as ready when the last pass has
    added to it.
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
        """A gradient is ready. Returns whether no later pass adds to the gradient, if this backward
        pass is like earlier ones.
        """
        self.since_update += 1
        self._times[i] += 1
        self._most_times[i] = max(self._most_times[i], self._times[i])
        return self._times[i] == self._most_times[i]

    def end_backward(self) -> bool:
        """Returns whether this backward pass computed gradients. A pass that was already running
        when recording began does not count.
        """
        has_come = self._before is not None and self.since_update != self._before
        self._before = None
        return has_come
