"""Computes times of steps and of their communication from traces of torch.profiler.

`json_stream.py` reads a file event by event, and `events.py` keeps the events that matter.
`calls.py` finds the collectives of one rank, `steps.py` accounts for its steps, and `alignment.py`
finds the same collective on all ranks. `report.py` puts the answer together, `text.py` prints it,
and `plan.py` makes a recording of it. All times are in seconds after the beginning of a trace. Only
the standard library is needed.
"""
