#!/usr/bin/env python3
"""The models of //bench:ddp and //bench:compare under PyTorch, with the same data, sizes, protocol and records.

  python3 bench/peers/pytorch_ddp.py --model=small --batch_size=2 --seq_len=128 --steps=10 --out=DIR
  python3 bench/peers/pytorch_ddp.py --model=resnet50 --batch_size=4 --image_size=96 --steps=10 --out=DIR

Or step by step in turn with gradsync's own strategies, in one run:

  bazel run //bench:ddp -- --model=small --with_peers=pytorch --out=DIR
  bazel run //bench:compare -- --with_peers=pytorch --out=DIR

Needs nothing but PyTorch, 1.13 or newer: `python3 -m venv DIR && DIR/bin/pip install torch`, or on Debian 12
`apt-get install python3-torch libopenblas0-pthread` (1.13). With Debian's package the second name matters: it
computes with whatever BLAS is installed, and the reference BLAS that comes by default was seen to take 40 times as
long as OpenBLAS.
Starts its own ranks, each a process; under torchrun it joins that world. Strategies:

  none      no synchronisation
  naive     after backward, one blocking all-reduce per parameter
  flat      after backward, concatenate, one all-reduce, split
  overlap   an asynchronous all-reduce of each gradient the moment it is accumulated
  ddp       torch.nn.parallel.DistributedDataParallel with buckets of --bucket_bytes
  ddp_view  the same with gradient_as_bucket_view, whose averaged gradients are not copied back

Each with "_compiled" behind its name runs the model under torch.compile in its default mode, which takes PyTorch 2.0
and a C++ compiler, on a GPU Triton. Compilation comes before the first step. The optimizer is the same.

With all of them forward begins with the broadcast of rank 0's buffers, if the model has any. On --device=cuda times
are between CUDA events, else the host's. --dtype=bf16 is autocast: weights, gradients and what is averaged stay f32.
--dtype=tf32 is f32 whose products on a GPU may round their factors.

Writes one JSON line per (strategy, rank), in the format of gradsync's own (bench/records/record.h), so that
//tools:summarize puts both into one table; the strategies are named pytorch_none, pytorch_none_compiled, and so on.
DistributedDataParallel waits for its all-reduces inside backward: it has only both together,
`backward_and_sync_ns`.
"""

import argparse
import ctypes
import datetime
import json
import os
import platform
import secrets
import socket
import subprocess
import sys
import tempfile
import time

try:
    import torch
except ImportError as error:
    sys.exit(f"{sys.executable} has no PyTorch ({error}): install it with `python3 -m venv DIR && "
             "DIR/bin/pip install torch`, and name DIR/bin/python with --peer_python")
import torch.distributed as dist

sys.dont_write_bytecode = True  # beside sources that may be read-only
from pytorch_models import TRANSFORMERS, gradsync_name, make_model, random_batch
from pytorch_training import COMPILED, STRATEGIES, Contest, clock_of, rounds

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
    if not hasattr(torch, "compile"):
        sys.exit(f"torch.compile needs PyTorch 2.0 or newer, {sys.executable} has {torch.__version__}")
    try:
        x = torch.ones(8, device=device, requires_grad=True)
        torch.compile(lambda x: (x.sin() + 1).sum())(x).backward()
    except Exception as error:
        sys.exit(f"torch.compile does not work with {sys.executable} on this machine: {in_a_line(error)}")


def compile_all(contest, config):
    """See Contest.compile; for batches of the shapes that steps will have."""
    if not any(runner.compiled for runner in contest.runners.values()):
        return {}
    # Compilers may have all CPUs; threads that will compute are there before, on theirs.
    torch.ones(1 << 20).sin()
    own_cpus = os.sched_getaffinity(0)
    os.sched_setaffinity(0, range(os.cpu_count()))
    try:
        batch = [part.to(contest.device) for part in random_batch(config, torch.Generator())]
        return contest.compile(batch)
    except Exception as error:
        sys.exit(f"torch.compile: {in_a_line(error)}")
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
        if command["compute_cpus"]:
            os.sched_setaffinity(0, command["compute_cpus"])  # this thread; communication has its own already
        return {"libraries": libraries(self.device), "clock": clock_of(self.device).NAME}

    def begin(self, command):
        self.weights = command["weights"]
        self.contest = None  # its memory is needed

        def make():
            model = make_model(command, self.device)
            self.load(model)
            return model

        self.contest = Contest(command, self.device, make)
        return {"facts": compile_all(self.contest, command)}

    def load(self, model):
        if self.rank == 0:
            with torch.no_grad():
                load_safetensors(self.weights, {gradsync_name(n): p for n, p in model.named_parameters()})

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
            return self.contest.step(name, batch)
        torch.cuda.reset_peak_memory_stats()
        return {**self.contest.step(name, batch), "peak_bytes_in_use": torch.cuda.max_memory_allocated(),
                "strategies_in_memory": self.contest.strategies_in_memory(name)}

    def check(self, command):
        name = command["strategy"]
        self.load(self.contest.model)
        self.contest.restart()
        self.contest.step(name, self.batch(command))
        named = {gradsync_name(n): p for n, p in self.contest.runners[name].model.named_parameters()}
        save_safetensors(command["path"], {**named, **{"grad." + n: p.grad for n, p in named.items()}})
        return {}


def serve():
    ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG: not to outlive the rank
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # gloo greets on the standard output
    server = Server(sys.stdin.buffer)
    for line in iter(sys.stdin.buffer.readline, b""):
        command = json.loads(line)
        answer = {"hello": server.hello, "join": server.join, "begin": server.begin, "step": server.step,
                  "check": server.check}[command["do"]](command)
        print(json.dumps(answer), file=answers, flush=True)
    os._exit(0)  # whoever asked is gone, and so may be the peers that an orderly end would wait for


def device_of(kind, local_rank):
    if kind == "cpu":
        return torch.device("cpu")
    # More ranks than GPUs share them, as gradsync's do.
    torch.cuda.set_device(local_rank % torch.cuda.device_count())
    return torch.device("cuda", torch.cuda.current_device())


def libraries(device):
    blas = next((word for word in torch.__config__.show().split(", ") if word.startswith("BLAS_INFO=")), "BLAS_INFO=")
    names = {"pytorch": torch.__version__, "python": platform.python_version(), "blas": blas.split("=")[1]}
    if device.type == "cuda":
        names.update(cuda=torch.version.cuda, cudnn=str(torch.backends.cudnn.version()))
        if dist.is_nccl_available():
            names["nccl"] = ".".join(str(n) for n in torch.cuda.nccl.version())
    return names


def config_of(args):
    """As the record has it."""
    config = {
        "model": args.model, "backend": args.backend, "device": args.device, "dtype": args.dtype,
        "batch_size": args.batch_size, "bucket_bytes": args.bucket_bytes, "threads_per_rank": args.threads_per_rank,
        "order": "interleaved", "seed": args.seed, "warmup_steps": args.warmup_steps, "steps": args.steps,
        "optimizer": args.optimizer or ("sgd" if args.model == "resnet50" else "adamw"), "learning_rate": 1e-3,
    }
    if args.model == "resnet50":
        config.update(image_size=args.image_size, width=64, units="bytes", buffer_elements=args.bucket_bytes // 4)
        return config
    d_model, d_ff, num_layers, num_heads = TRANSFORMERS[args.model]
    config.update(seq_len=args.seq_len, vocab_size=args.vocab_size, d_model=d_model, d_ff=d_ff, num_layers=num_layers,
                  num_heads=num_heads)
    return config


def measure(args, config, rank, device):
    """Samples by strategy, each by name."""
    torch.manual_seed(args.seed)
    contest = Contest({**config, "bucket_bytes": dict.fromkeys(args.strategies, args.bucket_bytes)}, device,
                      lambda: make_model(config, device))
    compile_all(contest, config)
    data = torch.Generator().manual_seed(args.seed * 1000003 + rank)
    samples = {name: {} for name in args.strategies}
    last_round, batch = None, None
    for round_index, position, name in rounds(args.strategies, args.warmup_steps, args.steps, args.seed):
        if round_index != last_round:
            last_round, batch = round_index, [part.to(device) for part in random_batch(config, data)]
        phases = contest.step(name, batch)
        if round_index >= 0:
            for sample, value in {"position": position, **phases}.items():
                samples[name].setdefault(sample, []).append(value)
        if rank == 0 and sys.stderr.isatty():
            print(f"\rround {round_index + 1} of {args.steps} ", end="", file=sys.stderr)
    return samples


def provenance(device):
    def first(path, start):
        with open(path) as lines:
            return next((l.split(start)[-1].strip(' \t\n:="') for l in lines if l.startswith(start)), "")

    return {
        "host": socket.gethostname(),
        "os": first("/etc/os-release", "PRETTY_NAME"),
        "kernel": f"{platform.system()} {platform.release()}",
        "cpu_model": first("/proc/cpuinfo", "model name"),
        "cpu_count": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "gpu": torch.cuda.get_device_name(device) if device.type == "cuda" else "",
        "compiler": "",
        "build": "opt",
        "libraries": libraries(device),
        "command_line": " ".join(sys.argv),
        "clock": clock_of(device).NAME,
    }


def write(args, config, rank, world_size, device, samples):
    now = datetime.datetime.now(datetime.timezone.utc)
    letters = torch.tensor(list((now.strftime("%Y%m%dT%H%M%S-") + secrets.token_hex(2)).encode()), device=device)
    dist.broadcast(letters, 0)
    run_id = bytes(letters.tolist()).decode()
    experiment = "compare" if args.model == "resnet50" else "ddp"
    os.makedirs(args.out, exist_ok=True)
    path = os.path.join(args.out, f"{experiment}.{run_id}.rank{rank}.jsonl")
    with open(path, "x") as out:
        for name in args.strategies:
            record = {
                "schema": "gradsync.record/1",
                "experiment": experiment,
                "run_id": run_id,
                "time_utc": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
                "rank": rank,
                "world_size": world_size,
                "config": {**config, "strategy": "pytorch_" + name},
                "samples": samples[name],
                "provenance": provenance(device),
            }
            out.write(json.dumps(record, separators=(",", ":")) + "\n")
            out.flush()
            os.fsync(out.fileno())
    return path


def run_rank(args):
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(args.threads_per_rank)
    device = device_of(args.device, int(os.environ.get("LOCAL_RANK", rank)))
    dist.init_process_group(args.backend, timeout=datetime.timedelta(seconds=args.timeout))
    config = config_of(args)
    samples = measure(args, config, rank, device)
    path = write(args, config, rank, world_size, device, samples)
    if rank == 0:
        for name, columns in samples.items():
            medians = {phase: sorted(column)[len(column) // 2] / 1e9 for phase, column in columns.items()}
            print(f"pytorch_{name:8} " + "  ".join(
                f"{phase[:-3]} {medians[phase]:.4f} s" for phase in (
                    "step_ns", "forward_ns", "backward_ns", "sync_exposed_ns", "backward_and_sync_ns", "optimizer_ns")
                if phase in medians))
        print(path)
    dist.destroy_process_group()


def launch(args):
    """Runs this script once for each rank. The first rank to fail decides; the others are stopped."""
    with tempfile.TemporaryDirectory() as directory, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        ranks = [
            subprocess.Popen([sys.executable, *sys.argv], env={
                **os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(args.world_size),
                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": str(args.threads_per_rank),
                "GLOO_SOCKET_IFNAME": os.environ.get("GLOO_SOCKET_IFNAME", "lo"), "TMPDIR": directory,
            }) for rank in range(args.world_size)
        ]
        try:
            while any(rank.poll() is None for rank in ranks):
                failed = [i for i, rank in enumerate(ranks) if rank.poll() not in (None, 0)]
                if failed:
                    sys.exit(f"rank {failed[0]} failed with status {ranks[failed[0]].returncode}")
                time.sleep(0.05)
        finally:
            for rank in ranks:
                rank.kill()
        return max(rank.returncode for rank in ranks)


def parse(argv):
    def names(text):
        chosen = text.split(",")
        for name in chosen:
            if name not in STRATEGIES and name not in [eager + COMPILED for eager in STRATEGIES]:
                raise argparse.ArgumentTypeError(
                    f"'{name}' is none of {', '.join(STRATEGIES)}, nor one of these with {COMPILED} behind it")
        return chosen

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=[*TRANSFORMERS, "resnet50"], default="small")
    parser.add_argument("--strategies", type=names, default=list(STRATEGIES))
    parser.add_argument("--backend", choices=("gloo", "nccl"), default="gloo")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--dtype", choices=("f32", "tf32", "bf16"), default="f32")
    parser.add_argument("--optimizer", choices=("adamw", "sgd"), help="default: sgd for resnet50, else adamw")
    parser.add_argument("--world_size", type=int, default=2)
    parser.add_argument("--threads_per_rank", type=int, default=1)
    parser.add_argument("--batch_size", type=int, default=2, help="sequences or images of one rank")
    parser.add_argument("--seq_len", type=int, default=128, help="of a transformer")
    parser.add_argument("--vocab_size", type=int, default=10000, help="of a transformer")
    parser.add_argument("--image_size", type=int, default=96, help="of resnet50: pixels on each side")
    parser.add_argument("--bucket_bytes", type=int, default=25 << 20)
    parser.add_argument("--warmup_steps", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--timeout", type=int, default=60, help="seconds")
    parser.add_argument("--out", default="results/pytorch")
    args = parser.parse_args(argv)
    if args.backend == "nccl" and args.device == "cpu":
        parser.error("--backend=nccl: moves tensors of a GPU only, expected --device=cuda")
    if args.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device=cuda: PyTorch sees no GPU here")
    return args


if __name__ == "__main__":
    if "--serve" in sys.argv[1:]:
        sys.exit(serve())
    if "--check" in sys.argv[1:]:  # whether this interpreter can, with a device behind it: compile for that
        for device_kind in sys.argv[sys.argv.index("--check") + 1:]:
            require_compiler(device_kind)
        sys.exit()
    arguments = parse(sys.argv[1:])
    sys.exit(run_rank(arguments) if "RANK" in os.environ else launch(arguments))
