"""Runs code of the command `check` inside the process of the training script."""

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
    """Makes context managers for code of the command `check` inside the process of a training
    script: with `work` an OwnWork, the code is in a block `with work():`. In these blocks, autograd
    records no operations. An Exception in a block ends the rank's process. The exit status is
    UNKNOWN for the exception Refused, and FAULT for any other Exception.

    `found`: a function that returns DIFFERS if `check` has found a difference, such as a wrong
    gradient, else SAME. If `found` returns DIFFERS, the exit status is DIFFERS for every Exception.
    `place`: FILE:LINE of the script's last call of backward() or of an optimizer's step(), for
    error messages; empty before the first. `spent_ns`: the nanoseconds spent in all `with` blocks
    of this object that have ended; time in nested blocks counts once.
    """

    def __init__(self, found: Callable[[], Status] = lambda: Status.SAME) -> None:
        self.is_running = False
        self.spent_ns = 0
        self.place = ""
        self._found = found

    def status(self, otherwise: Status) -> Status:
        """Returns DIFFERS if `check` has found a difference, else `otherwise`."""
        return Status.DIFFERS if self._found() == Status.DIFFERS else otherwise

    def refuse(self, text: str, first_rank: int = 0) -> None:
        """Prints `text` as an error, and ends the rank's process. Each rank except `first_rank`
        waits 10 s before it prints `text`; torchrun usually ends the rank during this wait. The
        exit status is DIFFERS if `check` has found a difference, else UNKNOWN."""
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
