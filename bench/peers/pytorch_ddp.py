#!/usr/bin/env python3
"""The transformer of //bench:ddp under PyTorch, with the same data, sizes, protocol and records.

  python3 bench/peers/pytorch_ddp.py --model=small --batch_size=2 --seq_len=128 --steps=10 --out=DIR

Or step by step in turn with gradsync's own strategies, in one run:

  bazel run //bench:ddp -- --model=small --with_peers=pytorch --out=DIR

Needs nothing but PyTorch, 1.13 or newer: `python3 -m venv DIR && DIR/bin/pip install torch`, or on Debian 12
`apt-get install python3-torch libopenblas0-pthread` (1.13). With Debian's package the second name matters: it
computes with whatever BLAS is installed, and the reference BLAS that comes by default was seen to take 40 times as
long as OpenBLAS.
Starts its own ranks, each a process; under torchrun it joins that world. Strategies:

  none     no synchronisation
  naive    after backward, one blocking all-reduce per parameter
  flat     after backward, concatenate, one all-reduce, split
  overlap  an asynchronous all-reduce of each gradient the moment it is accumulated
  ddp      torch.nn.parallel.DistributedDataParallel

Writes one JSON line per (strategy, rank), in the format of //bench:ddp (bench/record.h), so that
//tools:summarize puts both into one table; the strategies are named pytorch_none, pytorch_naive, and so on.
DistributedDataParallel waits for its all-reduces inside backward: its `backward` holds what the other strategies
show as exposed synchronisation, and it has no `sync_exposed` of its own.
"""

import argparse
import ctypes
import datetime
import json
import os
import platform
import random
import secrets
import socket
import subprocess
import sys
import tempfile
import time

if __name__ == "__main__":
    try:
        import torch
    except ImportError as error:
        sys.exit(f"{sys.executable} has no PyTorch ({error}): install it with `python3 -m venv DIR && "
                 "DIR/bin/pip install torch`, and name DIR/bin/python with --peer_python")
import torch
import torch.distributed as dist
import torch.nn.functional as F

# name: d_model, d_ff, layers, heads
MODELS = {
    "tiny": (256, 1024, 4, 4),
    "small": (768, 3072, 12, 12),
    "medium": (1024, 4096, 24, 16),
    "large": (1280, 5120, 36, 20),
    "xl": (1600, 6400, 48, 25),
    "2.7b": (2560, 10240, 32, 32),
}
STRATEGIES = ("none", "naive", "flat", "overlap", "ddp")


class RmsNorm(torch.nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(d_model))

    def forward(self, x):
        return x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-5).type_as(x) * self.weight


def linear(d_in, d_out):
    layer = torch.nn.Linear(d_in, d_out, bias=False)
    std = (2 / (d_in + d_out)) ** 0.5
    torch.nn.init.trunc_normal_(layer.weight, std=std, a=-3 * std, b=3 * std)
    return layer


class Block(torch.nn.Module):
    def __init__(self, d_model, d_ff, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = RmsNorm(d_model), RmsNorm(d_model)
        self.q, self.k, self.v, self.o = (linear(d_model, d_model) for _ in range(4))
        self.w1, self.w3, self.w2 = linear(d_model, d_ff), linear(d_model, d_ff), linear(d_ff, d_model)

    def forward(self, x, cos, sin, mask):
        batch, seq, d_model = x.shape

        def heads(t):
            return t.view(batch, seq, self.heads, -1).transpose(1, 2)

        def rope(t):
            even, odd = t[..., 0::2], t[..., 1::2]
            return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)

        h = self.ln1(x)
        q, k, v = rope(heads(self.q(h))), rope(heads(self.k(h))), heads(self.v(h))
        if hasattr(F, "scaled_dot_product_attention"):
            a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = q @ k.transpose(-1, -2) / (d_model // self.heads) ** 0.5
            a = scores.masked_fill(mask, float("-inf")).softmax(-1) @ v
        x = x + self.o(a.transpose(1, 2).reshape(batch, seq, d_model))
        h = self.ln2(x)
        return x + self.w2(F.silu(self.w1(h)) * self.w3(h))


class Transformer(torch.nn.Module):
    def __init__(self, shape, vocab_size, seq_len, device):
        super().__init__()
        d_model, d_ff, layers, heads = shape
        self.token_embeddings = torch.nn.Embedding(vocab_size, d_model)
        self.layers = torch.nn.ModuleList(Block(d_model, d_ff, heads) for _ in range(layers))
        self.ln_final = RmsNorm(d_model)
        self.lm_head = linear(d_model, vocab_size)
        head_dim = d_model // heads
        angles = torch.outer(torch.arange(seq_len), 10000.0 ** (-torch.arange(0, head_dim, 2) / head_dim))
        # Not buffers: DistributedDataParallel would broadcast them, and gloo has no bool.
        self.cos, self.sin = angles.cos().to(device), angles.sin().to(device)
        self.mask = torch.ones(seq_len, seq_len, device=device).triu(1).bool()

    def forward(self, ids, targets):
        x = self.token_embeddings(ids)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin, self.mask)
        logits = self.lm_head(self.ln_final(x))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Nothing:
    """Base of all strategies: `active` is true during their own steps only, because they share one model."""

    def __init__(self, model):
        self.params = list(model.parameters())
        self.active = False

    def finish(self):
        pass


class Naive(Nothing):
    def finish(self):
        for p in self.params:
            p.grad /= dist.get_world_size()
            dist.all_reduce(p.grad)


class Flat(Nothing):
    def finish(self):
        grads = [p.grad / dist.get_world_size() for p in self.params]
        flat = torch._utils._flatten_dense_tensors(grads)
        dist.all_reduce(flat)
        for p, g in zip(self.params, torch._utils._unflatten_dense_tensors(flat, grads)):
            p.grad = g


class Overlap(Nothing):
    def __init__(self, model):
        super().__init__(model)
        self.works, self.nodes = [], []
        for p in self.params:
            if hasattr(p, "register_post_accumulate_grad_hook"):  # PyTorch 2.1
                p.register_post_accumulate_grad_hook(self.ready)
            else:
                node = p.expand_as(p).grad_fn.next_functions[0][0]
                node.register_hook(lambda *_, p=p: self.ready(p))
                self.nodes.append(node)  # the hook lives as long as the node

    def ready(self, p):
        if self.active:
            p.grad /= dist.get_world_size()
            self.works.append(dist.all_reduce(p.grad, async_op=True))

    def finish(self):
        for work in self.works:
            work.wait()
        self.works.clear()


CLASSES = {"none": Nothing, "naive": Naive, "flat": Flat, "overlap": Overlap, "ddp": Nothing}


class Replica:
    """A model with what trains it. All ranks begin with rank 0's weights."""

    def __init__(self, model, optimizer="adamw", learning_rate=1e-3):
        self.model = self.runner = model
        self.make_optimizer = lambda: {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}[optimizer](
            model.parameters(), lr=learning_rate)
        self.restart()

    def restart(self):
        for p in self.model.parameters():
            dist.broadcast(p.data, 0)
        self.optimizer = self.make_optimizer()


def make_replicas(strategies, make, bucket_bytes):
    """By strategy. All but DistributedDataParallel share one; that has its own, because its hooks stay for good."""
    replicas = {}
    if set(strategies) - {"ddp"}:
        replicas = dict.fromkeys(strategies, make())
    if "ddp" in strategies:
        own = make()
        own.runner = torch.nn.parallel.DistributedDataParallel(own.model, bucket_cap_mb=bucket_bytes / 2**20)
        replicas["ddp"] = own
    return replicas


def timed_step(replica, strategy, ids, targets):
    """One training step. Returns its loss and forward, backward, sync_exposed, optimizer, step in ns."""
    sync = torch.cuda.synchronize if ids.is_cuda else lambda: None
    replica.optimizer.zero_grad(set_to_none=True)
    strategy.active = True
    sync()
    dist.barrier()
    times = [time.perf_counter_ns()]

    def mark():
        sync()
        times.append(time.perf_counter_ns())

    loss = replica.runner(ids, targets)
    mark()
    loss.backward()
    mark()
    strategy.finish()
    mark()
    replica.optimizer.step()
    mark()
    strategy.active = False
    return loss, [b - a for a, b in zip(times, times[1:])] + [times[-1] - times[0]]


def measure(args, rank, device):
    """Samples by strategy: rows of position, forward, backward, sync_exposed, optimizer, step."""
    torch.manual_seed(args.seed)
    replicas = make_replicas(args.strategies, lambda: Replica(
        Transformer(MODELS[args.model], args.vocab_size, args.seq_len, device).to(device)), args.bucket_bytes)
    strategies = {name: CLASSES[name](replicas[name].model) for name in args.strategies}
    data = torch.Generator().manual_seed(args.seed * 1000003 + rank)
    order = random.Random(args.seed)
    samples = {name: [] for name in args.strategies}
    for round_index in range(-args.warmup_steps, args.steps):
        for position, name in enumerate(order.sample(args.strategies, len(args.strategies))):
            ids, targets = (torch.randint(args.vocab_size, (args.batch_size, args.seq_len), generator=data).to(device)
                            for _ in range(2))
            _, timed = timed_step(replicas[name], strategies[name], ids, targets)
            if round_index >= 0:
                samples[name].append([round_index * len(args.strategies) + position] + timed)
        if rank == 0 and sys.stderr.isatty():
            print(f"\rround {round_index + 1} of {args.steps} ", end="", file=sys.stderr)
    return samples


def gradsync_name(name):
    """"layers.0.o.weight" -> "layers.0.attn.output_proj.weight"."""
    parts = name.split(".")
    if parts[0] == "layers":
        parts[2] = {"q": "attn.q_proj", "k": "attn.k_proj", "v": "attn.v_proj", "o": "attn.output_proj",
                    "w1": "ffn.w1", "w2": "ffn.w2", "w3": "ffn.w3"}.get(parts[2], parts[2])
    return ".".join(parts)


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


class Server:
    """One rank's peer of a rank of //bench:ddp, which sends a command in a line of JSON and waits for the line that
    answers it: {"do": "hello"}, join, begin, step, check. bench/pytorch_peer.h is the other side."""

    def hello(self, command):
        answer = {"libraries": libraries()}
        if command["rank"] == 0:
            self.store = dist.TCPStore("0.0.0.0", 0, command["world_size"], True, wait_for_workers=False)
            answer["port"] = self.store.port
        return answer

    def join(self, command):
        timeout = datetime.timedelta(seconds=command["timeout_s"])
        if command["rank"] != 0:
            self.store = dist.TCPStore(command["host"], command["port"], command["world_size"], False, timeout=timeout)
        if command["interface"]:
            os.environ["GLOO_SOCKET_IFNAME"] = command["interface"]
        self.device, self.rank = torch.device("cpu"), command["rank"]
        if command["device"] == "cuda":
            self.device = torch.device("cuda", command["local_rank"])
            torch.cuda.set_device(self.device)
        torch.set_num_threads(command["threads"])
        dist.init_process_group(command["backend"], store=self.store, rank=self.rank,
                                world_size=command["world_size"], timeout=timeout)
        if command["compute_cpus"]:
            os.sched_setaffinity(0, command["compute_cpus"])  # this thread; communication has its own already
        return {}

    def begin(self, command):
        self.batch_shape, self.weights = (command["batch_size"], command["seq_len"]), command["weights"]
        shape = [command[name] for name in ("d_model", "d_ff", "num_layers", "num_heads")]
        self.replicas = self.strategies = None  # their memory is needed

        def make():
            model = Transformer(shape, command["vocab_size"], command["seq_len"], self.device).to(self.device)
            self.load(model)
            return Replica(model, command["optimizer"], command["learning_rate"])

        self.replicas = make_replicas(command["strategies"], make, command["bucket_bytes"])
        self.strategies = {name: CLASSES[name](self.replicas[name].model) for name in command["strategies"]}
        return {}

    def load(self, model):
        if self.rank == 0:
            with torch.no_grad():
                load_safetensors(self.weights, {gradsync_name(n): p for n, p in model.named_parameters()})

    def batch(self, batch):
        return (torch.tensor(batch[name]).view(self.batch_shape).to(self.device) for name in ("inputs", "targets"))

    def step(self, command):
        name = command["strategy"]
        _, times = timed_step(self.replicas[name], self.strategies[name], *self.batch(command))
        answer = dict(zip(("forward_ns", "backward_ns", "sync_exposed_ns", "optimizer_ns", "step_ns"), times))
        if name == "ddp":
            del answer["sync_exposed_ns"]  # it waits inside backward
        return answer

    def check(self, command):
        name = command["strategy"]
        replica = self.replicas[name]
        self.load(replica.model)
        replica.restart()
        timed_step(replica, self.strategies[name], *self.batch(command))
        named = {gradsync_name(n): p for n, p in replica.model.named_parameters()}
        save_safetensors(command["path"], {**named, **{"grad." + n: p.grad for n, p in named.items()}})
        return {}


def serve():
    ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG: not to outlive the rank
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # gloo greets on the standard output
    server = Server()
    for line in sys.stdin:
        command = json.loads(line)
        answer = {"hello": server.hello, "join": server.join, "begin": server.begin, "step": server.step,
                  "check": server.check}[command["do"]](command)
        print(json.dumps(answer), file=answers, flush=True)
    os._exit(0)  # whoever asked is gone, and so may be the peers that an orderly end would wait for


def libraries():
    blas = next((word for word in torch.__config__.show().split(", ") if word.startswith("BLAS_INFO=")), "BLAS_INFO=")
    return {"pytorch": torch.__version__, "python": platform.python_version(), "blas": blas.split("=")[1]}


def provenance(args, device):
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
        "libraries": libraries(),
        "command_line": " ".join(sys.argv),
        "clock": "perf_counter, host, ns",
    }


def write(args, rank, world_size, device, samples):
    now = datetime.datetime.now(datetime.timezone.utc)
    letters = torch.tensor(list((now.strftime("%Y%m%dT%H%M%S-") + secrets.token_hex(2)).encode()), device=device)
    dist.broadcast(letters, 0)
    run_id = bytes(letters.tolist()).decode()
    os.makedirs(args.out, exist_ok=True)
    path = os.path.join(args.out, f"ddp.{run_id}.rank{rank}.jsonl")
    names = ["position", "forward_ns", "backward_ns", "sync_exposed_ns", "optimizer_ns", "step_ns"]
    with open(path, "x") as out:
        for name in args.strategies:
            columns = dict(zip(names, (list(column) for column in zip(*samples[name]))))
            if name == "ddp":
                del columns["sync_exposed_ns"]  # it waits inside backward
            record = {
                "schema": "gradsync.record/1",
                "experiment": "ddp",
                "run_id": run_id,
                "time_utc": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
                "rank": rank,
                "world_size": world_size,
                "config": {
                    "model": args.model, "strategy": "pytorch_" + name, "backend": args.backend,
                    "device": args.device, "dtype": "f32", "batch_size": args.batch_size, "seq_len": args.seq_len,
                    "bucket_bytes": args.bucket_bytes, "threads_per_rank": args.threads_per_rank,
                    "order": "interleaved", "seed": args.seed, "warmup_steps": args.warmup_steps,
                    "steps": args.steps, "optimizer": "adamw",
                },
                "samples": columns,
                "provenance": provenance(args, device),
            }
            out.write(json.dumps(record, separators=(",", ":")) + "\n")
            out.flush()
            os.fsync(out.fileno())
    return path


def run_rank(args):
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(args.threads_per_rank)
    device = torch.device("cpu")
    if args.device == "cuda":
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", rank)))
        torch.cuda.set_device(device)
    dist.init_process_group(args.backend, timeout=datetime.timedelta(seconds=args.timeout))
    samples = measure(args, rank, device)
    path = write(args, rank, world_size, device, samples)
    if rank == 0:
        for name, rows in samples.items():
            medians = [sorted(column)[len(column) // 2] / 1e9 for column in zip(*rows)]
            print(f"pytorch_{name:8} step {medians[5]:.4f} s  forward {medians[1]:.4f}  backward {medians[2]:.4f}  "
                  f"sync {medians[3]:.4f}  optimizer {medians[4]:.4f}")
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
            if name not in STRATEGIES:
                raise argparse.ArgumentTypeError(f"'{name}' is none of {', '.join(STRATEGIES)}")
        return chosen

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="small")
    parser.add_argument("--strategies", type=names, default=list(STRATEGIES))
    parser.add_argument("--backend", choices=("gloo", "nccl"), default="gloo")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--world_size", type=int, default=2)
    parser.add_argument("--threads_per_rank", type=int, default=1)
    parser.add_argument("--batch_size", type=int, default=2)
    parser.add_argument("--seq_len", type=int, default=128)
    parser.add_argument("--vocab_size", type=int, default=10000)
    parser.add_argument("--bucket_bytes", type=int, default=25 << 20)
    parser.add_argument("--warmup_steps", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--timeout", type=int, default=60, help="seconds")
    parser.add_argument("--out", default="results/pytorch")
    return parser.parse_args(argv)


if __name__ == "__main__":
    if "--serve" in sys.argv[1:]:
        sys.exit(serve())
    if "--check" in sys.argv[1:]:  # whether this interpreter can
        sys.exit()
    arguments = parse(sys.argv[1:])
    sys.exit(run_rank(arguments) if "RANK" in os.environ else launch(arguments))
