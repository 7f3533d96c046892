"""Computes, from traces of torch.profiler, how long steps and their communication take.

`json_stream.py` reads a trace's file event by event, and `events.py` keeps the events about steps,
computation and communication. `collectives.py` finds the collectives of one rank, `steps.py`
divides its steps into parts, and `alignment.py` finds each collective in the traces of all its
ranks. `report.py` collects the results, `text.py` formats them, and `plan.py` converts a trace to a
recording for `gradsync what_if`. Moments in a trace are in seconds. Moment 0 is the beginning of
the first event in file order whose category `events.py` reads, such as a kernel or an operator.
Events that begin earlier have negative moments. The package needs only Python's standard
library."""
