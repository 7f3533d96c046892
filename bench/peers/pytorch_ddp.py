#!/usr/bin/env python3
"""The models of //bench:ddp and //bench:compare under PyTorch, step by step in turn with gradsync's own strategies:

  ./bazelw run //bench:ddp -- --model=small --with_peers=pytorch --out=DIR
  ./bazelw run //bench:compare -- --with_peers=pytorch --out=DIR

Needs PyTorch 2.4 or newer, the first that has all of these in its fastest form: `python3 -m venv DIR && DIR/bin/pip
install torch`. Strategies:

  none            no synchronisation
  naive           after backward, one blocking all-reduce per parameter
  flat            after backward, concatenate, one all-reduce, split
  overlap         an asynchronous all-reduce of each gradient the moment it is accumulated
  ddp             torch.nn.parallel.DistributedDataParallel with buckets of that size
  ddp_view        the same with gradient_as_bucket_view, whose averaged gradients are not copied back
  zero1           ddp_view with ZeroRedundancyOptimizer, which updates a part of the weights on each rank
  fully_shard     fully_shard of each block and of the model, PyTorch 2.6 or newer: weights and gradients are in parts too
  bf16_hook       ddp_view with bf16_compress_hook
  post_local_sgd  no averaging of gradients; PostLocalSGDOptimizer averages weights after every 8th step

Each with "_compiled" behind its name runs the model under torch.compile in its default mode, which takes a C++
compiler, on a GPU Triton. Compilation comes before the first step, as do two passes in which DistributedDataParallel
finds its buckets. It waits for its all-reduces inside backward, and has only both together: `backward_and_sync_ns`.

With all of them forward begins with the broadcast of rank 0's buffers, if the model has any. --dtype=bf16 is autocast:
weights, gradients and what is averaged stay f32. --dtype=tf32 is f32 whose products on a GPU may round their factors.
"""

import ctypes
import datetime
import json
import os
import platform
import re
import sys

try:
    import torch
except ImportError as error:
    sys.exit(f"{sys.executable} has no PyTorch ({error}): install it with `python3 -m venv DIR && "
             "DIR/bin/pip install torch`, and name DIR/bin/python with --peer_python")
if tuple(int(number) for number in torch.__version__.split(".")[:2]) < (2, 4):
    sys.exit(f"{sys.executable} has PyTorch {torch.__version__}, expected 2.4 or newer")
import torch.distributed as dist

sys.dont_write_bytecode = True  # beside sources that may be read-only
from pytorch_models import make_model, random_batch
from pytorch_training import Case, clock_of, whole

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "i32": torch.int32}


def load_safetensors(path, tensors):
    """Fills the tensors (f32, by name) from a file of exactly these."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        start = file.tell()
        for name, tensor in tensors.items():
            begin, end = header[name]["data_offsets"]
            file.seek(start + begin)
            values = torch.frombuffer(bytearray(file.read(end - begin)), dtype=torch.float32)
            tensor.copy_(values.view(tensor.shape))


def save_safetensors(path, tensors):
    header, offset = {}, 0
    for name, tensor in tensors.items():
        end = offset + 4 * tensor.numel()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors.values():
            values = tensor.detach().cpu().contiguous()
            file.write(ctypes.string_at(values.data_ptr(), 4 * values.numel()))  # .numpy() needs NumPy


def in_a_line(error):
    """Its first paragraph; what follows are hints and traces."""
    return f"{type(error).__name__}: {' '.join(str(error).strip().partition(chr(10) * 2)[0].split())[:400]}"


def require_compiler(device):
    """Ends the program in one line unless torch.compile works here, which only trying shows."""
    try:
        x = torch.ones(8, device=device, requires_grad=True)
        torch.compile(lambda x: (x.sin() + 1).sum())(x).backward()
    except Exception as error:
        sys.exit(f"torch.compile does not work with {sys.executable} on this machine: {in_a_line(error)}")


def warm_up(case, config):
    """See Case.warm_up; on batches of the shapes that steps will have."""
    # Compilers may have all CPUs; threads that will compute are there before, on theirs.
    torch.ones(1 << 20).sin()
    own_cpus = os.sched_getaffinity(0)
    if any(variant.compiled for variant in case.variants.values()):
        os.sched_setaffinity(0, range(os.cpu_count()))
    try:
        return case.warm_up([part.to(case.device) for part in random_batch(config, torch.Generator())])
    except Exception as error:
        sys.exit(f"before the first step: {in_a_line(error)}")
    finally:
        os.sched_setaffinity(0, own_cpus)


class Server:
    """One rank's peer of a rank of gradsync's, which sends a command in a line of JSON and waits for the line that
    answers it: {"do": "hello"}, join, begin, step, check. Behind a step and a check comes their batch, as it lies in
    memory. bench/peers/pytorch.h is the other side."""

    def __init__(self, commands):
        self.commands = commands  # a stream of bytes

    def hello(self, command):
        if command["rank"] != 0:
            return {}
        self.store = dist.TCPStore("0.0.0.0", 0, command["world_size"], True, wait_for_workers=False)
        return {"port": self.store.port}

    def join(self, command):
        timeout = datetime.timedelta(seconds=command["timeout_s"])
        if command["rank"] != 0:
            self.store = dist.TCPStore(command["host"], command["port"], command["world_size"], False, timeout=timeout)
        if command["interface"]:
            os.environ["GLOO_SOCKET_IFNAME"] = command["interface"]
        self.rank, self.device = command["rank"], device_of(command["device"], command["local_rank"])
        torch.set_num_threads(command["threads"])
        dist.init_process_group(command["backend"], store=self.store, rank=self.rank,
                                world_size=command["world_size"], timeout=timeout)
        return {"libraries": libraries(self.device), "clock": clock_of(self.device).NAME}

    def begin(self, command):
        self.weights = command["weights"]
        self.case = None  # its memory is needed

        def make():
            model = make_model(command, self.device)
            self.load(model)
            return model

        self.case = Case(command, self.device, make)
        return {"facts": warm_up(self.case, command)}

    def load(self, model):
        if self.rank == 0:
            with torch.no_grad():
                load_safetensors(self.weights, dict(model.named_parameters()))

    def batch(self, command):
        return [self.read(**command[name]).to(self.device) for name in ("inputs", "targets")]

    def read(self, dtype, shape):
        """From behind the command."""
        data = bytearray(torch.Size(shape).numel() * torch.empty(0, dtype=DTYPES[dtype]).element_size())
        view = memoryview(data)
        while view:
            view = view[self.commands.readinto(view) or sys.exit("a batch broke off"):]
        values = torch.frombuffer(data, dtype=DTYPES[dtype]).view(shape)
        return values.long() if dtype == "i32" else values.float()

    def step(self, command):
        name, batch = command["strategy"], self.batch(command)
        if self.device.type == "cpu":
            return self.case.steps(name, batch, command["num_steps"])
        torch.cuda.reset_peak_memory_stats()
        return {**self.case.steps(name, batch, command["num_steps"]),
                "peak_bytes_in_use": torch.cuda.max_memory_allocated()}

    def check(self, command):
        name = command["strategy"]
        self.load(self.case.model)
        self.case.restart()
        self.case.step(name, self.batch(command))
        named = dict(self.case.variants[name].model.named_parameters())
        tensors = {**named, **{"grad." + n: p.grad for n, p in named.items()}}
        save_safetensors(command["path"], {n: whole(tensor) for n, tensor in tensors.items()})
        return {}


def serve():
    ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG: not to outlive the rank
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # gloo greets on the standard output
    server = Server(sys.stdin.buffer)
    for line in iter(sys.stdin.buffer.readline, b""):
        command = json.loads(line)
        print(json.dumps(getattr(server, command["do"])(command)), file=answers, flush=True)
    os._exit(0)  # whoever asked is gone, and so may be the peers that an orderly end would wait for


def device_of(kind, local_rank):
    if kind == "cpu":
        return torch.device("cpu")
    # More ranks than GPUs share them, as gradsync's do.
    torch.cuda.set_device(local_rank % torch.cuda.device_count())
    return torch.device("cuda", torch.cuda.current_device())


def libraries(device):
    blas = re.search(r"BLAS_INFO=(\w+)", torch.__config__.show())
    names = {"pytorch": torch.__version__, "python": platform.python_version(), "blas": blas[1] if blas else "unknown"}
    if device.type == "cuda":
        names.update(cuda=torch.version.cuda, cudnn=str(torch.backends.cudnn.version()))
        if dist.is_nccl_available():
            names["nccl"] = ".".join(str(n) for n in torch.cuda.nccl.version())
    return names


if __name__ == "__main__":
    if "--serve" in sys.argv[1:]:
        sys.exit(serve())
    if "--check" not in sys.argv[1:]:
        sys.exit(__doc__)
    # Whether this interpreter can, with a device behind it: compile for that.
    for device_kind in sys.argv[sys.argv.index("--check") + 1:]:
        require_compiler(device_kind)
