"""Raises Refused with one line that explains why an input cannot be used."""

from __future__ import annotations

from gradsync import Refused


def require(holds: object, *text: object) -> None:
    """Raises Refused with the parts of the text, unless the condition holds."""
    if not holds:
        raise Refused("".join(map(str, text)))
