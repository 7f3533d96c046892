"""Names that other modules import from here."""

from gradsync.ranks import flat_of, gathered

__all__ = ["flat_of", "gathered"]
