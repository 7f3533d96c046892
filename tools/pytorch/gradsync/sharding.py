"""What FSDP2 (torch.distributed.fsdp.fully_shard) makes of a step: which collectives, in which order, and when."""

import re
from collections import namedtuple

from gradsync.link import UNITS, Network, collective_seconds
from gradsync.recording import NS, begin_of, ready_of, require
from gradsync.replay import Round, Step, predict

# `parameters`: their numbers, in one collective. `reshards`: whether they are freed after forward, and gathered again.
Unit = namedtuple("Unit", "name parameters reshards")
# In terms of computation: when it is issued, and what waits for it; None: the end of the step.
Collective = namedtuple("Collective", "kind unit issued needed")
# Of collectives of units in a script that has none: a standard deviation of the logarithm, which 10 predictions were off by
# (docs/prediction.md).
UNITS_ERROR = 0.2
CALLS = ("pre_forward", "post_forward", "pre_backward", "post_backward")  # of a unit, in a pass


def units_of(launch):
    """Those of the script, or else its repeated blocks, which torchtitan and Accelerate shard so too: what is called by a number
    in a list of modules, of nested ones the outermost. The first is the root, which holds the rest."""
    if launch["units"]:
        return [Unit(u["name"], tuple(u["parameters"]), u["reshards"]) for u in launch["units"]]
    blocks = {"": []}
    for i, parameter in enumerate(launch["parameters"]):
        block = re.match(r"((?:[^.]+\.)*?\d+)\.", parameter["name"])
        blocks.setdefault(block[1] if block else "", []).append(i)
    return [Unit(name, tuple(own), name != "") for name, own in blocks.items()]


def collectives(events, units, overlaps, empty=()):
    """FSDP2's collectives in the order of issue, of `events`: (moment, which, unit) in order of time, `which` one of
    pre_forward, post_forward, pre_backward, post_backward, and accumulate, a post_backward that does not reduce.

    Forward gathers what a module needs when it is called, and, if hosts run ahead of GPUs (`overlaps`), as soon as the unit
    before the last has been copied out of its buffer. Backward gathers one unit ahead, in the reverse order of forward's ends.
    The buffer of a reduce-scatter is free when the next one begins, so that one is in flight at a time
    (torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py). `empty`: units without parameters, which are no units there."""
    whole, done, last = set(), [], "post_backward"  # unsharded, or on its way
    gathers, order, places, coming, reducing = [], [], {}, {}, None

    def issue(kind, unit, moment, needed):
        done.append(Collective(kind, unit, moment, needed))
        return len(done) - 1

    def arrive(place, moment):
        if place is not None:
            done[place] = done[place]._replace(needed=moment)

    for moment, which, unit in events:
        if unit in empty:
            continue
        if which == "pre_forward":
            if last in ("post_backward", "accumulate"):
                gathers, order, places = (
                    [],
                    [],
                    {},
                )  # moments of forward's; units by end of forward, and their places in it
                coming, reducing = {}, None  # places in `done` of what nobody has waited for
            if unit not in whole:
                early = gathers[-2] if len(gathers) > 1 else gathers[0] if gathers else moment
                issue("all_gather", unit, early if overlaps else moment, moment)
                gathers.append(moment)
            whole.add(unit)
        elif which == "post_forward":
            places.setdefault(unit, []).append(len(order))
            order.append(unit)
            if units[unit].reshards:
                whole.discard(unit)
        elif which == "pre_backward":
            if unit not in whole:
                issue("all_gather", unit, moment, moment)
                whole.add(unit)
            arrive(coming.pop(unit, None), moment)
            before = places[unit].pop() - 1 if places.get(unit) else -1
            if before >= 0 and order[before] not in whole:
                coming[order[before]] = issue("all_gather", order[before], moment, None)
                whole.add(order[before])
        else:
            whole.discard(unit)
            if which == "post_backward":
                arrive(reducing, moment)
                reducing = issue("reduce_scatter", unit, moment, None)
        last = which
    return done


def events_of(step, units, passes, ready):
    """Of a step, in seconds from its begin. As recorded of FSDP2's own units; else backward tells, from one unit's last
    gradient to the next one's, and forward is in proportion. `ready`: seconds from the begin of backward, by parameter."""
    before, backward = NS * step["before_ns"], NS * step["backward_ns"]
    one = (before + backward) / passes  # pass
    forward = max(one - backward, 0)
    if step["units_ns"]:
        begin = NS * min(ns[0] for ns in step["units_ns"])  # of forward
        last = sorted(
            (NS * ns, k, unit)
            for unit, own in enumerate(step["units_ns"])
            for k, ns in enumerate(own)
        )
        last = [(moment, CALLS[k], unit) for moment, k, unit in last]
    else:
        begin, at = before - forward, 0
        ends = sorted(
            (max(ready[p] for p in own.parameters), u)
            for u, own in enumerate(units)
            if u and own.parameters
        )
        forwards, backwards = [(before, "post_forward", 0)], [(before, "pre_backward", 0)]
        for end, u in ends:
            forwards[:0] = [
                (before - forward * end / backward, "pre_forward", u),
                (before - forward * at / backward, "post_forward", u),
            ]
            backwards += [(before + at, "pre_backward", u), (before + end, "post_backward", u)]
            at = end
        last = [
            (begin, "pre_forward", 0),
            *forwards,
            *backwards,
            (before + backward, "post_backward", 0),
        ]
    earlier = [
        (
            moment - begin + k * begin / (passes - 1),
            "accumulate" if which == "post_backward" else which,
            unit,
        )
        for k in range(passes - 1)
        for moment, which, unit in last
    ]
    return earlier + last


def bytes_of(recording, units):
    return [sum(recording.bytes[p] for p in unit.parameters) for unit in units]


def reshard(units, how):
    """With how="none" or "all" for all but the root; as they are with None."""
    return (
        units
        if how is None
        else [u._replace(reshards=how == "all" and k > 0) for k, u in enumerate(units)]
    )


def blocks(launch):
    """Over gloo every collective of FSDP2 returns when it is done, and its streams are empty classes."""
    return launch["device"] == "cpu"


def hybrid_seconds(network, kind, size):
    """Sharded within a host and replicated between hosts: gradients that are summed within go around all hosts."""
    within = network._replace(world_size=network.ranks_per_host, algorithm="ring")
    seconds = collective_seconds(within, "all_gather", size)
    if kind == "reduce_scatter":  # all ranks of a host share its link
        hosts = network.world_size // network.ranks_per_host
        seconds += collective_seconds(
            Network(hosts, 1, network.between, network.within, "ring"), "all_reduce", size
        )
    return seconds


def rounds_of(recording, i, units):
    """Of launch i's steps without synchronisation: of each rank (its begin, the step, its collectives). All issue in the order
    of rank 0."""
    launch, sizes = recording.launches[i], bytes_of(recording, units)
    empty = {u for u, size in enumerate(sizes) if not size}
    rounds = []
    for steps in zip(*launch["ranks"]):
        if steps[0]["mode"] == "none":
            begins = [begin_of(launch, step) for step in steps]
            events = [
                events_of(step, units, launch["passes"], [NS * ns for ns in ready_of(step)])
                for step in steps
            ]
            order = [event[1:] for event in events[0]]
            rounds.append(
                [
                    (
                        begin - min(begins),
                        step,
                        collectives(
                            [
                                (moment, *event)
                                for moment, event in zip(
                                    sorted(moment for moment, *_ in own), order
                                )
                            ],
                            units,
                            not blocks(launch),
                            empty,
                        ),
                    )
                    for begin, step, own in zip(begins, steps, events)
                ]
            )
    require(rounds, recording.path, ", line ", i + 1, ': no steps of mode "none"')
    return rounds


def plan_of(recording, i, units):
    return rounds_of(recording, i, units)[0][0][2]


def predict_launch(question, i, how, costs, pace_of_link=1):
    """What a step of FSDP2 should take, by launch i. `how`: reshard(). `costs`: a LinkCosts."""
    recording, launch, pace = question.recording, question.recording.launches[i], question.pace
    units = reshard(units_of(launch), how)
    sizes = bytes_of(recording, units)
    of_kind = {
        "all_gather": "all_gather",
        "reduce_scatter": "reduce_scatter"
        if "reduce_scatter" in costs.curves
        else "all_reduce"
        if launch["backend"] == "gloo"
        else "all_gather",
    }  # gloo's reduce-scatter is an all-reduce
    of_kind.update((kind, own) for kind, own in UNITS.items() if own in costs.curves)
    share = (
        launch["world_size"] if launch["units"] else 1
    ) / question.world_size  # of the optimizer's work
    ranks = [[] for _ in launch["ranks"]]
    for one in rounds_of(recording, i, units):
        for own, (begin, step, plan) in zip(ranks, one):
            end = NS * (step["before_ns"] + step["backward_ns"])
            own.append(
                Round(
                    begin,
                    0,
                    [pace * c.issued for c in plan],
                    pace * end,
                    pace * NS * (share * step["optimizer_ns"] + step["rest_ns"]),
                    [pace * (end if c.needed is None else c.needed) for c in plan],
                )
            )
    threads, on_host = launch["threads"], launch["hosts"].count(launch["hosts"][0])
    error = question.log_error if launch["units"] else max(question.log_error, UNITS_ERROR)
    return predict(
        Step(
            ranks,
            [sizes[c.unit] for c in plan],
            question.world_size,
            costs.changed(pace_of_link),
            max(threads, launch["cores"] / on_host),
            threads,
            error,
            [of_kind[c.kind] for c in plan],
            blocks(launch),
        )
    )
