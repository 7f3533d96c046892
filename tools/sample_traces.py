"""Traces of two ranks for tests, in ms."""


def event(name, row, begin, end, step=0, strategy="core", rank=0, **args):
    of_step = {"strategy": strategy, "step": step, "batch_size": 2, "seq_len": 64}
    return {
        "name": name,
        "ph": "b" if row == 3 else "X",
        "pid": rank,
        "tid": row,
        "ts": 1e3 * begin,
        "dur": 1e3 * (end - begin),
        "args": of_step | args,
    }


def wait(begin, end, counted=True, **more):
    return event("wait", 1, begin, end, sequence=0, counted=counted, **more)


def step_of(end, step=0, rank=0, sync_end=32, waits=()):
    """A step from 0 to `end`: backward from 5 to 20, one collective in flight from 10 to 30."""
    of_step = {"step": step, "rank": rank}
    of_collective = {"sequence": step, "bytes": 2**20} | of_step
    return [
        event("core", 1, 0, end, **of_step),
        event("forward", 1, 0, 5, **of_step),
        event("backward", 1, 5, 20 + rank, **of_step),
        event("sync_exposed", 1, 20 + rank, sync_end, **of_step),
        event("optimizer", 1, sync_end, end, **of_step),
        *(wait(*times, **of_step) for times in waits),
        event("MatMul", 2, 5, 9, **of_step),
        event("all_reduce", 3, 7, 7, **of_collective),
        event("all_reduce", 4, 10, 30, **of_collective),
    ]


def trace(rank, ends=((0, 40),), sync_end=32, waits=()):
    """Steps of a rank, by number and end, which all have the same waits: (begin, end[, counted])."""
    name = {"ph": "M", "name": "process_name", "pid": rank, "tid": 1, "args": {"name": "x"}}
    steps = [step_of(end, step, rank, sync_end, waits) for step, end in ends]
    return {
        "traceEvents": [name, *(one for step in steps for one in step)],
        "otherData": {"origin": "tiny, 2 ranks", "strategies": ["core"]},
    }
