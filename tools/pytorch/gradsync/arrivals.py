"""Notes when a model's gradients become ready in backward."""

from __future__ import annotations

from gradsync.clock import Mark


class Arrivals:
    """The gradients that are ready, and when they became ready.

    `since_update`: the number of gradients since the last step of an optimizer. `sparse`: the name
    of a parameter that got a sparse gradient. `begin`: the mark at the beginning of the last
    backward. `ready`: for each parameter the mark when its gradient was ready; None if it has no
    gradient.
    """

    def __init__(self, params: int) -> None:
        self._params = params
        self.since_update = 0
        self.sparse = ""
        self.begin: Mark = 0
        self.ready: list[Mark | None] = [None] * params
        self._before: int | None = None  # since_update when backward began

    def begin_backward(self, moment: Mark) -> None:
        self.begin = moment
        self.ready = [None] * self._params
        self._before = self.since_update

    def end_backward(self) -> bool:
        """Returns whether this backward pass computed gradients. A pass that began before recording
        does not count.
        """
        has_come = self._before is not None and self.since_update != self._before
        self._before = None
        return has_come
