"""Names the known mistake, such as a missing division by the number of ranks, that multiplies
gradients or a loss by a given factor. Needs no PyTorch."""

from __future__ import annotations


def name_of_factor(factor: float, tolerance: float, world_size: int, passes: int) -> str:
    """Returns a text that names the mistake that multiplies gradients or a loss by this factor; an
    empty text if none is known.

    `tolerance`: the relative error that the factor may have by rounding. `passes`: the number of
    backward passes in a step.
    """
    both = world_size * passes
    ranks = f"the number of ranks, {world_size}"
    if passes == world_size:
        ranks += f", or of passes, {passes}"
    known = (
        (world_size, f"summed and not averaged: {ranks}"),
        (1 / world_size, f"averaged twice: {ranks}"),
        (both, f"ranks times passes, {both}"),
        (passes, f"not divided by the number of passes, {passes}"),
        (1 / passes, f"divided by the number of passes, {passes}"),
        (1 / both, f"divided by ranks times passes, {both}"),
    )
    for mistake, name in known:
        if mistake != 1 and abs(factor / mistake - 1) <= tolerance:
            return name
    return ""
