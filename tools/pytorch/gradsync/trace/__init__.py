"""Computes, from traces of torch.profiler, how long steps and their communication take.

`json_stream.py` reads a file event by event, and `events.py` keeps the events that matter.
`collectives.py` finds the collectives of one rank, `steps.py` divides its steps into parts, and
`alignment.py` finds the same collective on all ranks. `report.py` collects the results, `text.py`
prints them, and `plan.py` makes a recording of a trace. All times are in seconds after the
beginning of a trace. The package needs only Python's standard library.
"""
