"""Tells by which factor gradsync's predictions for GPUs differed from measurements that other
people have published. Each compared number is a cost: the seconds by which a step takes longer on
several GPUs than on one.

The program tools/dev/published.py compares predictions for several GPUs with published times;
docs/prediction.md has its table.
"""

from __future__ import annotations

COSTS = 16  # of 4 and 8 GPUs
WITHIN = 24
HALF_WITHIN = 12


def note() -> str:
    """Returns a sentence that says how far predictions for GPUs were from what others have
    published. The command `what_if` prints this sentence in answers about GPUs."""
    return (
        f"{COSTS} published costs of 4 and 8 GPUs were predicted within a factor of {WITHIN}, half "
        f"of them within {HALF_WITHIN}: all too low."
    )
