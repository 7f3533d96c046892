"""Small traces as torch.profiler writes them, in round numbers. All times are microseconds."""

import contextlib
import gzip
import io
import json
import os
import pathlib
import tempfile

from gradsync.trace.command import main

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
GEMM = "ampere_sgemm_128x64_nn"
MAIN, AUTOGRAD, GLOO = 1, 2, 3  # threads
COMPUTE, SEND = 7, 20  # streams
MB = 1_000_000


def run(*arguments):
    """The exit status, and what the command prints to stdout and stderr."""
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        try:
            status = main(arguments)
        except SystemExit as end:
            status = end.code
    return status, out.getvalue(), error.getvalue()


class Sample:
    """The trace of one rank. Each method adds an event."""

    def __init__(self, rank=0, world_size=2, **facts):
        world = {"backend": "nccl", "rank": rank, "world_size": world_size}
        self.facts = {"schemaVersion": 1, "distributedInfo": world, "baseTimeNanoseconds": 0}
        self.facts.update(facts)
        self.events = [{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}}]
        self.correlation = 1000

    def add(self, category, name, begin, lasts, tid=MAIN, pid=1, **args):
        self.events.append(
            {
                "ph": "X",
                "cat": category,
                "name": name,
                "pid": pid,
                "tid": tid,
                "ts": begin,
                "dur": lasts,
                "args": args,
            }
        )
        return self

    def operator(self, name, begin, lasts, tid=MAIN, **args):
        return self.add("cpu_op", name, begin, lasts, tid, **args)

    def annotation(self, name, begin, lasts, tid=MAIN, **args):
        return self.add("user_annotation", name, begin, lasts, tid, **args)

    def step(self, number, begin, lasts):
        return self.annotation(f"ProfilerStep#{number}", begin, lasts)

    def kernel(
        self, begin, lasts, launched=None, name=GEMM, stream=COMPUTE, tid=MAIN, cat="kernel", **args
    ):
        """A kernel, or a copy, with the call that launched it, unless `launched` is None."""
        self.correlation += 1
        numbers = {"correlation": self.correlation, "stream": stream, **args}
        if launched is not None:
            call = {"correlation": self.correlation}
            self.add("cuda_runtime", "cudaLaunchKernel", launched, 1, tid, **call)
        return self.add(cat, name, begin, lasts, tid=stream, pid=0, **numbers)

    def all_reduce(self, begin, lasts, launched=None, size=MB, **args):
        """A kernel of NCCL with all that it says of its collective."""
        facts = {
            "Collective name": "allreduce",
            "In msg nelems": size // 4,
            "Out msg nelems": size // 4,
            "dtype": "Float",
            "Group size": 2,
            "Process Group Name": "0",
            "Process Group Ranks": "[0, 1]",
        }
        facts.update(args)
        return self.kernel(begin, lasts, launched, ALL_REDUCE, SEND, **facts)

    def gloo(self, begin, lasts, called=None, size=MB):
        """An all-reduce of gloo, on its own thread, and its call on the main one."""
        if called is not None:
            self.operator("c10d::allreduce_", called, 1)
        shapes = {"Input Dims": [[size // 4]], "Input type": ["float"]}
        return self.annotation("gloo:all_reduce", begin, lasts, GLOO, **shapes)

    def written(self, suffix=".json", is_compressed=None):
        """The path of a file with this trace."""
        text = json.dumps({**self.facts, "traceEvents": self.events})
        return written(text, suffix, is_compressed)


def written(text, suffix=".json", is_compressed=None):
    """The path of a file with this text."""
    is_compressed = suffix.endswith(".gz") if is_compressed is None else is_compressed
    directory = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
    path = pathlib.Path(directory, f"rank{suffix}")
    data = text.encode()
    path.write_bytes(gzip.compress(data) if is_compressed else data)
    return str(path)


def two_ranks(late=50, hosts=("a", "a"), apart=0.0, steps=4, group="[0, 1]", **facts):
    """Two ranks, of which rank 1 comes to each all-reduce `late` us after rank 0, with a clock that
    is `apart` us ahead. A step takes 1000 us; its all-reduce of 1 MB ends after 600 us, and takes
    100 us from the last arrival.
    """
    samples = []
    for rank, host in enumerate(hosts):
        one = Sample(rank, host_name=host)
        for step in range(steps):
            begin = 1000.0 * step + apart * rank
            one.step(step, begin, 990)
            one.kernel(begin + 10, 200, launched=begin + 5)
            waits = late if rank == 0 else 0
            more = {"Process Group Ranks": group, **facts}
            one.all_reduce(begin + 500 - waits, 100 + waits, launched=begin + 210, **more)
            one.kernel(begin + 700, 100, launched=begin + 650)
        samples.append(one)
    return samples


class DdpSteps:
    """Steps of DistributedDataParallel on a CPU: three gradients of 4, 8 and 12 bytes, of which the
    first is sent alone, and the others together. In each step of 1000 us forward takes 100 us from
    10 on, and backward 300 from 150 on; gradients are ready 50, 150 and 250 us later, each is
    copied into its bucket in 10 us, and copied back in 5 us when its bucket has come.
    """

    SIZES = (4, 8, 12)
    BUCKETS = ((0,), (1, 2))

    def __init__(
        self, steps=4, shapes=True, copy="torch::distributed::reducer::mul_out", back=True
    ):
        self.sample = Sample(world_size=2)
        self.shapes, self.copy, self.back = shapes, copy, back
        for step in range(steps):
            self.add_step(step, 1000.0 * step)

    def of(self, i):
        """What the profiler writes of gradient `i`'s shape."""
        shapes = {"Input Dims": [[self.SIZES[i] // 4]], "Input type": ["float"]}
        return shapes if self.shapes else {}

    def add_step(self, number, begin):
        one = self.sample
        one.step(number, begin, 990)
        one.annotation("DistributedDataParallel.forward", begin + 10, 100)
        one.operator("aten::linear", begin + 10, 100)
        self.add_backward(begin + 150)
        one.gloo(begin + 215, 60, size=4)
        one.gloo(begin + 452, 48, size=20)
        for bucket, at in zip(self.BUCKETS, (455, 505), strict=True):
            for k, i in enumerate(bucket):
                if self.back:
                    name = "torch.distributed.ddp.reducer::copy_bucket_to_grad"
                    one.operator(name, begin + at + 5 * k, 5, **self.of(i))
        one.annotation("Optimizer.step#SGD.step", begin + 600, 40)
        one.operator("aten::add_", begin + 600, 40)

    def add_backward(self, begin):
        one = self.sample
        node = "autograd::engine::evaluate_function: "
        for i in range(3):
            one.operator(node + "AddmmBackward0", begin + 100 * i, 40)
            accumulation = node + "torch::autograd::AccumulateGrad"
            one.operator(accumulation, begin + 100 * i + 40, 60)
            at = begin + 100 * i + 40
            one.operator("torch::autograd::AccumulateGrad", at, 10, **self.of(i))
            if self.copy:
                one.operator(self.copy, at + 10, 10, **self.of(i))
            if i in (0, 2):
                one.operator("c10d::allreduce_", at + 20, 5)
