"""How far predictions for GPUs were from what others have published: how much longer steps take on
several GPUs than on one.

gradsync's own measurements of steps that it has predicted for several ranks are on CPUs.
tools/dev/published.py predicts published steps of several GPUs; docs/prediction.md has its table.
"""

from __future__ import annotations

COSTS = 16  # of 4 and 8 GPUs
WITHIN = 24
HALF_WITHIN = 12


def note() -> str:
    """Returns a sentence that says how far predictions for GPUs were off. `what_if` prints it in
    answers about GPUs."""
    return (
        f"{COSTS} published costs of 4 and 8 GPUs were predicted within a factor of {WITHIN}, half "
        f"of them within {HALF_WITHIN}: all too low."
    )
