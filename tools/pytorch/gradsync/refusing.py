"""Defines a function that raises Refused if a condition on input does not hold."""

from __future__ import annotations

from gradsync import Refused


def require(holds: object, *text: object) -> None:
    """Raises Refused, unless `holds` is true. The message is the parts of `text`, joined without
    spaces."""
    if not holds:
        raise Refused("".join(map(str, text)))
