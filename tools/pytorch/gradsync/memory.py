"""What a rank's tensors need at the peak of a step, in bytes, as record's Live has seen one step without synchronisation.

Resident memory is more: allocators keep what they have, and libraries have their own."""

import re
from collections import namedtuple

from gradsync.sharding import unit_bytes

UNITS = {
    "": 1,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}
# `fixed`: held all the time. `moving`: the most that comes to it: activations, gradients, what is gathered and sent, or, after
# backward, what the optimizer computes with.
Peak = namedtuple("Peak", "fixed moving")


def parse_bytes(text):
    """ "80GB", "24GiB"; None for another text."""
    match = re.fullmatch(r"(\d+\.?\d*) ?([kMGT]i?|)B", text)
    return float(match[1]) * UNITS[match[2]] if match and float(match[1]) > 0 else None


class Need:
    """Of one launch. `live`: what it recorded; `order`: in which gradients were ready."""

    def __init__(self, recording):
        self.recording, self.live, self.bytes = (
            recording,
            recording.launches[0]["memory"],
            recording.bytes,
        )
        self.order = self.live["order"]
        self.gradients = sum(self.bytes)
        self.views = recording.launches[0]["views"]

    def moments(self, batch):
        """(activations and what else is computed, bytes of gradients before it) until each gradient is ready, forward first."""
        made, ready = 0, self.live["ready_bytes"]
        yield batch * self.live["forward_bytes"], 0, None
        for p in self.order:
            yield batch * ready[p], made, p
            made += self.bytes[p]

    def replicated(self, states=1, keeps=False, more=0, batch=1, buckets=True):
        """Of DistributedDataParallel. `states`: the part of the optimizer's state that a rank has. `keeps`: whether all gradients
        are there all the time, as where passes accumulate. `more`: bytes beside buckets. Its buckets are there all the time, and
        gradients are views of them, or come to them."""
        live = self.live
        held = keeps or live["keeps_gradients"]
        own = 0 if buckets and self.views else self.gradients  # of gradients that are no views
        fixed = (
            live["weight_bytes"]
            + live["buffer_bytes"]
            + states * live["state_bytes"]
            + buckets * self.gradients
        )
        backward = max(
            now + (own if held else min(made, own)) for now, made, _ in self.moments(batch)
        )
        return Peak(fixed, max(backward + more, own + states * live["optimizer_bytes"]))

    def sharded(self, units, ranks, batch=1, keeps=False):
        """Of FSDP2 between so many ranks (_fsdp_param_group.py, _fsdp_collectives.py). A unit is gathered into a buffer and
        copied out of it; its gradients are copied into a buffer, and their sum into a part of it."""
        live, sizes = self.live, unit_bytes(self.recording.first.parameters, units)
        parts = (live["weight_bytes"] + live["state_bytes"]) / ranks
        unit_of = {p: u for u, unit in enumerate(units) for p in unit.parameters}
        steps = list(self.moments(batch))
        # In the order of backward, by their first gradients.
        turn = list(dict.fromkeys(unit_of[p] for p in self.order))
        left = [sum(u == unit_of[p] for p in self.order) for u in range(len(units))]
        blocks = [u for u in turn if u and sizes[u]]
        ahead = dict(zip(blocks, blocks[1:]))
        stays = [size for size, unit in zip(sizes, units) if not unit.reshards]
        largest = max((size for size, unit in zip(sizes, units) if unit.reshards), default=0)
        peak, forward = steps[0][0], sum(stays) + 2 * largest
        there, made = (
            {u: sizes[u] for u, unit in enumerate(units) if not unit.reshards and sizes[u]},
            0,
        )
        peak += forward
        whole, summed, sent = (
            {},
            0,
            0,
        )  # gradients that are not reduced yet; parts that are; the last buffer
        for now, _, p in steps[1:]:
            u = unit_of[p]
            there.setdefault(u, sizes[u])
            next_u = ahead.get(u)
            gathered = sizes[next_u] if next_u is not None and next_u not in there else 0
            held = sum(there.values()) + gathered + sent + summed / ranks
            peak = max(peak, now + held + sum(whole.values()))
            whole[u] = whole.get(u, 0) + (0 if keeps else self.bytes[p])
            left[u] -= 1
            if not left[u]:
                there.pop(u)
                peak = max(
                    peak, batch * live["held_bytes"][p] + held - sent + sum(whole.values())
                )  # its buffer for its weights
                sent, summed = sizes[u], summed + sizes[u]
                whole.pop(u)
        # Passes that do not reduce add to whole gradients.
        kept = self.gradients if keeps else self.gradients / ranks if live["keeps_gradients"] else 0
        return Peak(
            parts + live["buffer_bytes"] + kept,
            max(peak, (0 if kept else self.gradients / ranks) + live["optimizer_bytes"] / ranks),
        )
