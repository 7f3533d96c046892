"""Runs code of `check` within the script that it checks. If this code raises an exception, the
rank's process ends."""

from __future__ import annotations

import contextlib
import time
import traceback
from collections.abc import Callable, Iterator

import torch

from gradsync import Refused
from gradsync.ending import end_rank
from gradsync.events import place
from gradsync.findings import Status


class OwnWork:
    """A context manager for code of `check` that runs within the script. `check` does not observe
    what its own code calls in PyTorch. If its own code raises an Exception, `check` ends the rank's
    process.

    If the exception is Refused, the rank ends with the exit status UNKNOWN; any other Exception is
    a fault of `check`, and the exit status is FAULT. Whatever the exception is, the exit status is
    DIFFERS if `check` has already found a difference, such as a wrong gradient. `found`: a function
    that returns DIFFERS if `check` has found a difference so far, else SAME.

    `place`: FILE:LINE of the script's last call of backward() or of an optimizer's step(). An error
    names this line if it happens while no line of the script is running, as in a thread of
    autograd. `spent_ns`: the nanoseconds that code of `check` has taken so far in all uses of this
    context.
    """

    def __init__(self, found: Callable[[], Status] = lambda: Status.SAME) -> None:
        self.is_running = False
        self.spent_ns = 0
        self.place = ""
        self._found = found

    def status(self, otherwise: Status) -> Status:
        """Returns the exit status of a rank that ends now: DIFFERS if `check` has found a
        difference, else `otherwise`."""
        return Status.DIFFERS if self._found() == Status.DIFFERS else otherwise

    def refuse(self, text: str, first_rank: int = 0) -> None:
        """Ends the rank's process with one line of error, because `check` cannot check what the
        rank does next.

        `first_rank`: the rank that prints its line of error at once. Each other rank that calls
        refuse() waits some seconds before it prints; torchrun usually ends it earlier.
        """
        where = place(otherwise=self.place)
        further = " further" if self._found() == Status.DIFFERS else ""
        line = f"{where}: cannot be checked{further}: {text}"
        end_rank(line, self.status(Status.UNKNOWN), first_rank)

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        was_running = self.is_running
        began = time.monotonic_ns()
        self.is_running = True
        try:
            with torch.no_grad():
                yield
        except Refused as error:
            self.refuse(str(error))
        except Exception:
            where = place(otherwise=self.place)
            text = f"{where}: check itself has failed:\n{traceback.format_exc()}"
            end_rank(text, self.status(Status.FAULT))
        finally:
            self.is_running = was_running
            if not was_running:
                self.spent_ns += time.monotonic_ns() - began
