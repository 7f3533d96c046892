"""large_trace.py OUT.json [EVENTS]: writes a trace as torch.profiler does of a GPU, with a million
events (250 MB) unless another number is given. How long `gradsync trace` reads it, and in how much
memory, tells:

    python3 tools/pytorch/large_trace.py /tmp/large.json
    PYTHONPATH=tools/pytorch /usr/bin/time -v python3 -m gradsync trace /tmp/large.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

STEPS = 10
EVENTS_OF_A_KERNEL = 5  # two operators, a launch, a kernel and the arrow between them
KERNEL = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"


def event(
    category: str, name: str, begin_us: float, lasts_us: float, **more: Any
) -> dict[str, Any]:
    one = {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1}
    return {**one, "ts": begin_us, "dur": lasts_us, **more}


def kernel_events(i: int, now_us: float) -> Iterator[dict[str, Any]]:
    """What one kernel adds to a trace, each as long as it is in real ones."""
    shapes = {"Input Dims": [[64, 512], [512, 512]], "Input type": ["float", "float"]}
    numbers = {"External id": i + 1, "Record function id": 0, "Ev Idx": i}
    yield event("cpu_op", "aten::linear", now_us, 9.125, args={**numbers, **shapes})
    yield event("cpu_op", "aten::addmm", now_us + 1, 7.5, args={**numbers, **shapes})
    launch = {"External id": i + 1, "cbid": 211, "correlation": i + 1}
    yield event("cuda_runtime", "cudaLaunchKernel", now_us + 2, 4.25, args=launch)
    communicates = i % 100 == 0
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    facts = {"device": 0, "context": 1, "stream": 20 if communicates else 7, "correlation": i + 1}
    facts.update({"grid": [8, 1, 1], "block": [544, 1, 1], "registers per thread": 96})
    if communicates:
        facts.update({"Collective name": "allreduce", "In msg nelems": 1 << 20, "dtype": "Float"})
        facts.update({"Process Group Name": "0", "Group size": 2})
    place = {"pid": 0, "tid": facts["stream"]}
    named = name if communicates else KERNEL
    yield {**event("kernel", named, now_us + 8, 8.75, args=facts), **place}
    arrow = {"ph": "f", "id": i + 1, "ts": now_us + 8, "cat": "ac2g", "name": "ac2g", "bp": "e"}
    yield {**arrow, **place}


def write(path: str, events: int) -> None:
    kernels = events // EVENTS_OF_A_KERNEL
    with open(path, "w") as file:
        world = {"backend": "nccl", "rank": 0, "world_size": 2}
        file.write('{"schemaVersion": 1, "distributedInfo": ' + json.dumps(world))
        file.write(', "baseTimeNanoseconds": 0, "traceEvents": [\n')
        for step in range(STEPS):
            lasts_us = 10.0 * kernels / STEPS
            name = f"ProfilerStep#{step}"
            one = event("user_annotation", name, step * lasts_us, lasts_us - 1, args={})
            file.write(json.dumps(one, indent=1) + ",\n")
        for i in range(kernels):
            for one in kernel_events(i, 10.0 * i):
                file.write(json.dumps(one, indent=1) + ",\n")
        file.write('{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}}]}\n')


if __name__ == "__main__":
    write(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000)
