"""What traces of torch.profiler tell of steps and of their communication.

`json_stream.py` reads a file event by event, and `events.py` keeps what matters. `calls.py` finds
the collectives of one rank, `steps.py` accounts for its steps, and `alignment.py` finds the same
collective on all ranks. `report.py` puts the answer together, `text.py` prints it, and `plan.py`
makes a recording of it. All times are seconds from the begin of a trace. The standard library
alone is needed.
"""
