"""What a step should take with collectives in it: replays of steps that do not synchronise, with collectives beside them."""

import math
from collections import namedtuple
from functools import lru_cache
from itertools import accumulate
from random import Random
from statistics import NormalDist, quantiles

from gradsync.recording import trimmed_mean

# What is predicted, in seconds. `ranks`: by rank its Rounds, of which those of one index were taken at the same time.
# `bucket_bytes`: as sent, in the order of issue. `link`: a LinkCosts between world_size ranks. Of a rank's `available`
# processors its `computing` threads use so many. `log_error`: how far collectives may be from the next launch's, a standard
# deviation of the logarithm. `kinds`: of collectives that are no all-reduces. If one `blocks`, ranks wait for it where they
# issue it.
Step = namedtuple(
    "Step",
    "ranks bucket_bytes world_size link available computing log_error kinds blocks",
    defaults=((), False),
)
# One rank's step without synchronisation, in seconds. `ready`: of each bucket, from the begin of the step; with those before.
# `backward`: its end. `after`: from there on. `first`: when the first gradient is ready. `needed`: what of computation
# waits for each collective, if not the optimizer alone.
Round = namedtuple("Round", "begin first ready backward after needed", defaults=((),))
# `step`: (trimmed mean over rounds, low, high of 95 %). `slowest`: the slowest rank's, without synchronisation. `exposed`: from
# the end of the last rank's backward until all is received, or, if computation waits for collectives, what all of it takes
# longer. `floor`: no schedule of these bytes takes less.
Prediction = namedtuple("Prediction", "step slowest exposed floor")

MOST_RANK_ACTIONS, FEWEST_DRAWS = 20_000_000, 12  # with more, thousands of ranks would take seconds
REPLICATES = 1000
# Every answer draws the same numbers: Python promises the sequence of Random.random() for a seed, on all releases, and of none
# of its other functions. What is drawn for one purpose does not depend on how much is drawn for the other.
DRAWING_SEED, RESAMPLING_SEED = 1, 2
INSTANT = 1e-12  # seconds that rounding may leave of a collective


@lru_cache(maxsize=None)
def resamples(count):
    """Returns a bootstrap's draws from this number of values. Each is a pace of the link, in standard deviations, and the
    positions of the values that are taken."""
    random, normal = Random(RESAMPLING_SEED), NormalDist()
    return [
        (normal.inv_cdf(random.random()), [int(count * random.random()) for _ in range(count)])
        for _ in range(REPLICATES)
    ]


def draw_rounds(step):
    """Returns rounds of all ranks: measured rounds, or, in a larger world, rounds whose other ranks are drawn."""
    measured, count, world = len(step.ranks), len(step.ranks[0]), step.world_size
    if world <= measured:
        return [[rank[k] for rank in step.ranks[:world]] for k in range(count)]
    random = Random(DRAWING_SEED)
    affordable = MOST_RANK_ACTIONS // (world * (4 * len(step.bucket_bytes) + 4))
    draws = []
    for k in range(min(max(affordable, FEWEST_DRAWS), count)):
        drawn = {(r, k) for r in range(measured)}
        for _ in range(world - measured):
            drawn.add((int(measured * random.random()), int(count * random.random())))
        draws.append(
            [step.ranks[r][i] for r, i in sorted(drawn)]
        )  # ranks of one round do equal work
    return draws


def transmit(issued, backward, seconds, gains, used, available, computing, needed=()):
    """Sends collectives in this order, each from the moment `issued`, as many at a time as there are channels. While k are in
    flight each goes at gains[k - 1] of its pace alone, where it takes `seconds`, and uses used[k - 1] of a rank's processors.
    Until `backward` the ranks compute. Where threads and communication want more processors than there are, both are slowed
    down in proportion. Two clocks: time, and that of computation, which `issued` and `backward` are moments of, and those from
    which on nothing is computed until a collective is done that is `needed`.

    Returns when `backward` is, in time, and when all are done, on both clocks."""
    work = time = issued[0]
    backward_time, following, channels, flight = None, 0, len(gains), []
    needed_later = list(accumulate(reversed(needed), min))[
        ::-1
    ]  # by collectives that are not in flight
    while flight or following < len(issued):
        waits = (
            [needed[i] for i, _ in flight] + needed_later[following : following + 1]
            if needed
            else ()
        )
        if backward_time is None and work >= backward:
            backward_time = time
        while following < len(issued) and len(flight) < channels and issued[following] <= work:
            flight.append((following, seconds[following]))
            following += 1
        if not flight:
            time += issued[following] - work
            work = issued[following]
            continue
        gain, use = gains[len(flight) - 1], used[len(flight) - 1]
        wanted = 0
        for i, _ in flight:
            wanted += use[i]
        stop = min(waits, default=math.inf)
        slow, slow_link = max(1, (computing + wanted) / available), max(1, wanted / available)
        step, next_work = math.inf, None
        if stop <= work:
            slow = math.inf  # nothing is computed
        elif work < backward:
            slow_link = slow
            step, next_work = (backward - work) * slow, backward
            if stop < backward:
                step, next_work = (stop - work) * slow, stop
        if (
            following < len(issued)
            and len(flight) < channels
            and (issued[following] - work) * slow < step
        ):
            step, next_work = (issued[following] - work) * slow, issued[following]
        for i, left in flight:
            if left * slow_link / gain[i] < step:
                step, next_work = left * slow_link / gain[i], None
        time += step
        work = work + step / slow if next_work is None else next_work
        flight = [(i, left - step * gain[i] / slow_link) for i, left in flight]
        flight = [(i, left) for i, left in flight if left > INSTANT]
    return time + max(0, backward - work) if backward_time is None else backward_time, time, work


def predict(step):
    draws, sizes, link = draw_rounds(step), step.bucket_bytes, step.link
    sent = list(zip(sizes, step.kinds or ["all_reduce"] * len(sizes)))
    channels = 1 if step.kinds else link.channels
    gains = [[link.gain(b, k) / k for b, _ in sent] for k in range(1, channels + 1)]
    used = [[link.processor(b, k, kind) / k for b, kind in sent] for k in range(1, channels + 1)]
    paces = [math.exp(-step.log_error), 1, math.exp(step.log_error)]
    alone = [link.seconds(b, kind) for b, kind in sent]
    seconds = [[pace * s for s in alone] for pace in paces]
    steps, nones, exposed, first = [], [], [], []
    for draw in draws:
        begin = min(r.begin for r in draw)
        late = max(r.begin for r in draw) - begin
        issued, needed = (
            list(map(max, *([r.begin - begin + t for t in times] for r, times in zip(draw, own))))
            if len(draw) > 1
            else own[0]
            for own in ([r.ready for r in draw], [r.needed for r in draw])
        )
        backward = max(r.begin - begin + r.backward for r in draw)
        if step.blocks:  # each makes all ranks wait for the slowest
            parts = [[b - a for a, b in zip([0, *r.ready], [*r.ready, r.backward])] for r in draw]
            *issued, backward = accumulate(map(max, zip(*parts)), initial=late)
            issued = needed = issued[1:]
        at_paces = []
        for pace in range(3):
            backward_time, time, work = transmit(
                issued, backward, seconds[pace], gains, used, step.available, step.computing, needed
            )
            end = max(
                max(backward if step.blocks else r.begin - begin + r.backward, work) + r.after
                for r in draw
            )
            at_paces.append(time + end - work - late)
            if pace == 1:
                exposed.append(
                    time + max(0, backward - work) - backward
                    if step.kinds
                    else max(0, time - backward_time)
                )
        steps.append((at_paces[1], at_paces[1] - at_paces[0], at_paces[2] - at_paces[1]))
        nones.append(max(r.begin - begin + r.backward + r.after for r in draw) - late)
        first.append(max(r.first for r in draw))
    slowest, means = trimmed_mean(nones), []
    for z, picks in resamples(len(draws)):
        at = [step + z * (faster if z < 0 else slower) for step, faster, slower in steps]
        means.append(trimmed_mean([at[i] for i in picks]))
    low, *_, high = quantiles(means, n=40, method="inclusive")
    if step.kinds:
        link_s, processor_s = sum(alone), sum(s * u for s, u in zip(alone, used[0]))
    else:
        total = sum(sizes)
        link_s = link.seconds(total)  # at the pace of one large collective
        processor_s = link_s * link.processor(total, 1)
    floor = max(
        slowest,
        trimmed_mean(first) + link_s,
        (slowest * step.computing + processor_s) / step.available,
    )
    return Prediction(
        (trimmed_mean([s for s, _, _ in steps]), low, high), slowest, trimmed_mean(exposed), floor
    )
