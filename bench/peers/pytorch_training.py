"""PyTorch's ways of synchronising training, and a step that is timed phase by phase."""

import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.optim import PostLocalSGDOptimizer, ZeroRedundancyOptimizer

DEFAULT_BUCKET_BYTES = 25 << 20  # DistributedDataParallel's own
COMPILED = "_compiled"  # behind the name of a strategy whose model runs under torch.compile
SHARDED = "fully_shard"
LOCAL_STEPS = 8  # of post_local_sgd: from one average of the weights to the next


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
        self.works = []
        for p in self.params:
            p.register_post_accumulate_grad_hook(self.ready)

    def ready(self, p):
        if self.active:
            p.grad /= dist.get_world_size()
            self.works.append(dist.all_reduce(p.grad, async_op=True))

    def finish(self):
        for work in self.works:
            work.wait()
        self.works.clear()


class WithBuffers(torch.nn.Module):
    """Forward begins with giving all ranks rank 0's buffers, in the way of DistributedDataParallel."""

    def __init__(self, model):
        super().__init__()
        self.model = model
        self.buffers_sent = list(model.buffers())

    def forward(self, *batch):
        if self.buffers_sent:
            dist._broadcast_coalesced(dist.distributed_c10d._get_default_group(), self.buffers_sent, 250 << 20, 0)
        return self.model(*batch)


# Those of DistributedDataParallel, which waits for gradients inside backward: the arguments that each is given.
# Buckets that gradients are views of are the faster way.
DDP = {"ddp": {}, **{name: {"gradient_as_bucket_view": True} for name in ("ddp_view", "zero1", "bf16_hook")}}

# All that a variant can be named. Most leave it to the variant to synchronise.
CLASSES = {**dict.fromkeys(("none", *DDP, SHARDED, "post_local_sgd"), Nothing),
           "naive": Naive, "flat": Flat, "overlap": Overlap}


def shard(model, device):
    """Each block is gathered before it is used and let go after; the rest of the model is gathered once for both
    passes, as PyTorch does it by default."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard  # PyTorch 2.6 or newer

    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    for block in model.layers:  # of a transformer: it takes no weights in channels_last
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def whole(tensor):
    """On all ranks: of what is in parts, all of it."""
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


class Variant:
    """A strategy at work: the module that it runs forward, and the model inside, whose gradients it makes.
    `compiled`: what torch.compile was given, for the record; empty if nothing. Behind the name may be the size of
    buckets, as in "ddp:4096" or "ddp:4096_compiled"."""

    def __init__(self, name, model, bucket_bytes):
        self.model = model
        self.kind = kind_of(name)
        if self.kind not in CLASSES:
            sys.exit(f"PyTorch has no strategy {self.kind}, expected one of {', '.join(CLASSES)}")
        self.has_buckets = self.kind in DDP
        self.is_sharded = self.kind == SHARDED
        self.compiled = ""
        if self.is_sharded:
            shard(model, next(model.parameters()).device)
        if self.has_buckets:
            # An explicit size switches off the small first bucket, which belongs to the default.
            size = {} if bucket_bytes == DEFAULT_BUCKET_BYTES else {"bucket_cap_mb": bucket_bytes / 2**20}
            self.module = self.ddp = torch.nn.parallel.DistributedDataParallel(model, **DDP[self.kind], **size)
            if self.kind == "bf16_hook":
                self.ddp.register_comm_hook(None, bf16_compress_hook)
            if name.endswith(COMPILED):
                # From outside, as PyTorch's notes on DistributedDataParallel say: the compiler then cuts the
                # graph where buckets end, so that they are sent while backward goes on.
                self.compiled = "torch.compile(DistributedDataParallel(model))"
                self.module = torch.compile(self.module)
        elif name.endswith(COMPILED):
            self.compiled = "torch.compile(model)"
            self.module = WithBuffers(torch.compile(model))
        else:
            self.module = WithBuffers(model)
        self.strategy = CLASSES[self.kind](model)
        self.params = self.strategy.params

    def restart(self, optimizer):
        """Forgets earlier steps. `optimizer`: what variants share; zero1 has one of the same kind of its own."""
        self.optimizer = optimizer
        if self.kind == "zero1":
            # Its buckets would lose the layout of weights in channels_last.
            views = all(p.is_contiguous() for p in self.params)
            self.optimizer = ZeroRedundancyOptimizer(
                self.params, type(optimizer), parameters_as_bucket_view=views, lr=optimizer.defaults["lr"], fused=True)
        if self.kind == "post_local_sgd":
            self.optimizer = PostLocalSGDOptimizer(optimizer, PeriodicModelAverager(LOCAL_STEPS, warmup_steps=0))
        if self.is_sharded:
            # PyTorch 2.15 has no fused SGD for parts.
            fastest = {"fused": True} if isinstance(optimizer, OPTIMIZERS["adamw"]) else {"foreach": True}
            self.optimizer = type(optimizer)(self.params, lr=optimizer.defaults["lr"], **fastest)

    def take(self, values):
        """Weights become these, which variants share, unless they are."""
        for p, value in zip(self.params, values):
            if self.is_sharded:
                own = value.chunk(dist.get_world_size())[dist.get_rank():][:1]
                for part in own:  # none if there are fewer rows than ranks
                    p.to_local().data.copy_(part)
            elif p.data_ptr() != value.data_ptr():  # zero1 keeps weights in buckets of its own
                p.data.copy_(value)

    def give(self, values):
        """The other way round."""
        for p, value in zip(self.params, values):
            if self.is_sharded or p.data_ptr() != value.data_ptr():
                value.copy_(whole(p.data))

    def buckets(self):
        """The bytes of DistributedDataParallel's buckets, in their order, for the record."""
        if not self.has_buckets:
            return {}
        buckets = [bucket.buffer() for bucket in self.ddp.reducer._get_zeros_like_grad_buckets()]
        return {"bucket_sizes": ", ".join(str(b.numel() * b.element_size()) for b in buckets)}


def kind_of(name):
    """"ddp:4096_compiled" -> "ddp"."""
    return name.removesuffix(COMPILED).partition(":")[0]


class HostClock:
    NAME = "perf_counter, host, ns"

    def begin(self):
        self.times = []

    def mark(self):
        self.times.append(time.perf_counter_ns())

    def between(self):
        return [b - a for a, b in zip(self.times, self.times[1:])]


class CudaClock:
    """Events on the stream that computes, so that the host runs ahead of the device as it does untimed."""

    NAME = "CUDA events, device, ns"

    def begin(self):
        self.events = []
        torch.cuda.synchronize()

    def mark(self):
        self.events.append(torch.cuda.Event(enable_timing=True))
        self.events[-1].record()

    def between(self):
        self.events[-1].synchronize()
        return [round(1e6 * a.elapsed_time(b)) for a, b in zip(self.events, self.events[1:])]


def clock_of(device):
    return CudaClock() if device.type == "cuda" else HostClock()


OPTIMIZERS = {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}


class Muon:
    """torch.optim.Muon for matrices; AdamW for vectors, the embedding and the output layer. Both have the rate `lr` and
    a weight decay of 0.01. PyTorch iterates in bf16, whatever the type of the weights."""

    TABLES = ("token_embeddings.weight", "lm_head.weight")

    def __init__(self, named_parameters, lr):
        if not hasattr(torch.optim, "Muon"):
            sys.exit(f"PyTorch {torch.__version__} has no torch.optim.Muon, expected 2.9 or newer")
        matrices, others = [], []
        for name, p in named_parameters:
            (matrices if p.dim() == 2 and name not in self.TABLES else others).append(p)
        self.parts = [
            torch.optim.Muon(matrices, lr=lr, weight_decay=0.01, adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW(others, lr=lr, fused=True),
        ]
        self.param_groups = [group for part in self.parts for group in part.param_groups]

    def step(self):
        for part in self.parts:
            part.step()


def make_optimizer(config, model):
    if config["optimizer"] == "muon":
        return Muon(model.named_parameters(), config["learning_rate"])
    # The fastest: fused, so that it reads memory once, as gradsync's own does. On a CPU that is not the default, which
    # takes several times as long.
    return OPTIMIZERS[config["optimizer"]](model.parameters(), lr=config["learning_rate"], fused=True)


class Case:
    """Strategies that take their steps in turn, on the same weights.

    `config`: a record's, with "bucket_bytes" by strategy. `make_model` makes one with its first weights. Those of
    DistributedDataParallel have models of their own, because its hooks stay for good, but no weights of their own.
    fully_shard has parts of its own, which get the weights before each step and give them back after it, untimed.
    bf16: forward under autocast; weights, gradients and what is averaged stay f32.
    """

    def __init__(self, config, device, make_model):
        self.clock = clock_of(device)
        self.device, self.bf16 = device, config["dtype"] == "bf16"
        self.make_optimizer = lambda: make_optimizer(config, self.model)
        # PyTorch allows TF32 by default for convolutions, but not for matrix products.
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = config["dtype"] == "tf32"
        if any(name.endswith(COMPILED) for name in config["bucket_bytes"]):
            torch.compiler.reset()  # what was compiled for other shapes would count against a limit
        self.model = make_model()
        self.params = list(self.model.parameters())
        self.values = [p.data for p in self.params]  # the weights' memory, which all models share
        self.variants = {}
        for name, bucket_bytes in config["bucket_bytes"].items():
            model = self.model
            if kind_of(name) in DDP or kind_of(name) == SHARDED:
                model = make_model()
            if kind_of(name) in DDP:
                self.share_weights(model.parameters())
            self.variants[name] = Variant(name, model, bucket_bytes)
        self.restart()

    def share_weights(self, params):
        for own, value in zip(params, self.values):
            own.data = value

    def restart(self):
        """All ranks begin with rank 0's weights."""
        for p in self.params:
            dist.broadcast(p.data, 0)
        optimizer = self.make_optimizer()
        for variant in self.variants.values():
            if not variant.is_sharded:
                self.share_weights(variant.params)
            variant.restart(optimizer)

    def forward(self, variant, batch):
        """The loss."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16):
            return variant.module(*batch)

    def drop_gradients(self):
        """To None, outside of what is timed. Zeros in gradients that stay in buckets, set_to_none=False, take longer,
        their filling included: 7.3 +- 5.5 % of a step of `tiny`, 2 x 64, with PyTorch 2.15 on a CPU."""
        for variant in self.variants.values():
            for p in variant.params:
                p.grad = None

    def warm_up(self, batch):
        """Two passes of each DistributedDataParallel, which makes its buckets anew in the second one, and of each
        compiled model; they change no weights. Returns facts of each for the record. Ranks return together, as one
        may have waited for its compiler longer than others."""
        facts = {}
        for name, variant in self.variants.items():
            if not (variant.has_buckets or variant.is_sharded or variant.compiled):
                continue
            begin = time.perf_counter_ns()
            for _ in range(2):
                self.drop_gradients()
                self.forward(variant, batch).backward()
            if self.device.type == "cuda":
                torch.cuda.synchronize()
            facts[name] = variant.buckets()
            if variant.compiled:
                facts[name].update(compiled=variant.compiled, compile_ns=time.perf_counter_ns() - begin)
        self.drop_gradients()
        dist.barrier()
        return facts

    def steps(self, name, batch, num_steps):
        """So many steps: the means of their phases, and when the first one began."""
        phases = [self.step(name, batch, waits=i == 0) for i in range(num_steps)]
        means = {phase: sum(p[phase] for p in phases) // num_steps for phase in phases[0]}
        return {**means, "begin_ns": phases[0]["begin_ns"]}

    def step(self, name, batch, waits=True):
        """One training step. Returns its phases in ns, by the names of a record's samples."""
        variant = self.variants[name]
        self.drop_gradients()
        variant.take(self.values)
        variant.strategy.active = True
        self.clock.begin()
        if waits:
            dist.barrier()
        begin_ns = time.perf_counter_ns()  # on Linux CLOCK_MONOTONIC, as std::chrono::steady_clock
        self.clock.mark()
        loss = self.forward(variant, batch)
        self.clock.mark()
        loss.backward()
        self.clock.mark()
        variant.strategy.finish()
        self.clock.mark()
        for shared, p in zip(self.params, [] if variant.is_sharded else variant.params):
            shared.grad = p.grad
        self.clock.mark()
        variant.optimizer.step()
        self.clock.mark()
        variant.strategy.active = False
        variant.give(self.values)
        if variant.kind == "post_local_sgd":  # PeriodicModelAverager leaves the average in new memory
            self.share_weights(variant.params)
        return {"begin_ns": begin_ns, **phases_of(variant, self.clock.between())}


def phases_of(variant, times):
    forward, backward, sync, _, optimizer = times  # what Case does for itself is no part of a step
    if variant.has_buckets or variant.is_sharded:  # they wait for gradients inside backward
        return {"forward_ns": forward, "backward_and_sync_ns": backward + sync, "optimizer_ns": optimizer}
    return {"forward_ns": forward, "backward_ns": backward, "sync_wait_ns": sync, "optimizer_ns": optimizer}
