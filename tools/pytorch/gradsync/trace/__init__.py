"""Computes, from traces of torch.profiler, how long steps and their communication take.

`json_stream.py` reads a trace's file event by event, and `events.py` keeps the events about steps,
computation and communication. `collectives.py` finds the collectives of one rank, `steps.py`
divides its steps into parts, and `alignment.py` finds each collective in the traces of all its
ranks. `report.py` collects the results, `text.py` formats them, and `plan.py` converts a trace to a
recording for `gradsync what_if`. Moments in a trace are seconds after the beginning of the first
event in its file that is a kernel, a memory operation, an operator, an annotation or a call of the
CUDA or HIP runtime. The package needs only Python's standard library."""
