"""How far predictions for GPUs were from step times that others have published.

gradsync's own measurements for comparison are on CPUs only. tools/dev/published.py predicts
published steps of many GPUs; docs/prediction.md has its table.
"""

from __future__ import annotations

COSTS = 16  # of 4 and 8 GPUs
WITHIN = 24
HALF_WITHIN = 12


def note() -> str:
    """Returns the sentence about this error that answers about GPUs contain."""
    return (
        f"{COSTS} published costs of 4 and 8 GPUs were predicted within a factor of {WITHIN}, half "
        f"of them within {HALF_WITHIN}: all too low."
    )
