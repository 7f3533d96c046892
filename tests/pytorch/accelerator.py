#!/usr/bin/env python3
"""An emulated accelerator: modules whose computation takes time and no processor.

    tools/dev/hosts.sh --rate=50mbit N PYTHON tests/pytorch/accelerator.py measure CASE OUT
    tools/dev/hosts.sh --rate=50mbit 2 PYTHON -m gradsync record --out=OUT tests/pytorch/accelerator.py train CASE

Forward, backward and the optimizer sleep, and gradients are zeros that nobody computes.
DistributedDataParallel, FSDP2, gloo and TCP are real. So two processors are enough for 16 hosts,
as long as the bytes are few and the link is slow.

`measure` takes steps of all ways in turn, and appends a JSON line to OUT. Without a rate it measures
a hop instead: what passing a small piece to the next rank takes. `train` is a script to be recorded.
accelerator_runs.py runs both.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import dataclasses
import json
import os
import pathlib
import random
import time
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed as dist
from accelerator_cases import CASES, MIB, Case, Way, all_ways
from torch import nn
from torch.distributed import DeviceMesh, init_device_mesh
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
from torch.distributed.algorithms.model_averaging.utils import average_parameters
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel as DDP

FLOAT_BYTES = 4
HOP_BYTES = 1 << 10  # of a piece by which a hop is measured, so that its latency counts
HOP_ROUNDS = 20


class Pace:
    """How long this rank sleeps. `is_on`: warm-up steps do not. Launches with different `seed`
    have different random numbers.
    """

    def __init__(self, case: Case, rank: int, seed: str) -> None:
        self.is_on = True
        self._case = case
        self._random = random.Random(f"{seed}, rank {rank}")
        self._of_rank = case.factor_of(rank)
        self._of_step = 1.0

    def begin_step(self) -> None:
        self._of_step = self._random.gauss(1, self._case.step_jitter)

    def sleep(self, seconds: float, jitter: float = 0) -> None:
        """Sleeps about so long, as this rank does."""
        factor = self._of_rank * self._of_step * self._random.gauss(1, jitter)
        if self.is_on:
            time.sleep(max(0, factor * seconds))


class _Compute(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, layer: Layer) -> torch.Tensor:
        ctx.layer = layer
        layer.sleep_forward()
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        ctx.layer.sleep_backward()
        return gradient, ctx.layer.gradient, None


class Layer(nn.Module):
    """Computes nothing, for some time. `size`: of its parameters, in MiB."""

    def __init__(self, pace: Pace, case: Case, size: float, seconds: float) -> None:
        super().__init__()
        numel = int(size * MIB) // FLOAT_BYTES
        self.weight = nn.Parameter(torch.zeros(numel))
        self.gradient = torch.zeros(numel)
        self._pace = pace
        self._jitter = case.layer_jitter
        self._seconds = seconds

    def __deepcopy__(self, memo: dict[int, Any]) -> Layer:
        other = copy.copy(self)
        other._parameters = {"weight": nn.Parameter(torch.zeros_like(self.weight))}
        return other

    def sleep_forward(self) -> None:
        self._pace.sleep(self._seconds / 2, self._jitter)

    def sleep_backward(self) -> None:
        self._pace.sleep(self._seconds, self._jitter)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = self.weight
        return _Compute.apply(x, weight, self)  # type: ignore[no-untyped-call,no-any-return]


class SleepingOptimizer(torch.optim.Optimizer):
    """Takes as long as it has elements to update, and updates none."""

    def __init__(self, params: Any, pace: Pace, seconds_per_element: float) -> None:
        super().__init__(params, {})
        self._pace = pace
        self._seconds_per_element = seconds_per_element

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        own = [param for group in self.param_groups for param in group["params"]]
        numel = sum(_local(param).numel() for param in own)
        self._pace.sleep(numel * self._seconds_per_element)


def _local(param: torch.Tensor) -> torch.Tensor:
    to_local = getattr(param, "to_local", None)  # of a DTensor
    return to_local() if to_local else param


def _ranks_per_host() -> int:
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def _mesh_of_hosts() -> DeviceMesh:
    """Each host has a replica, which its ranks share."""
    on_host = _ranks_per_host()
    shape = (dist.get_world_size() // on_host, on_host)
    return init_device_mesh("cpu", shape, mesh_dim_names=("replicas", "shards"))


def model_of(case: Case, pace: Pace) -> nn.Module:
    """Blocks of layers; an embedding, if there is one, comes first and is ready last."""
    layers = [Layer(pace, case, case.layer_mib, case.layer_s) for _ in range(case.layers)]
    blocks = [
        nn.Sequential(*layers[i : i + case.layers_of_block])
        for i in range(0, case.layers, case.layers_of_block)
    ]
    model = nn.Sequential()
    if case.embedding_mib:
        model.add_module("embedding", Layer(pace, case, case.embedding_mib, case.layer_s))
    model.add_module("blocks", nn.Sequential(*blocks))
    return model


def optimizer_of(params: Iterable[nn.Parameter], case: Case, pace: Pace) -> SleepingOptimizer:
    return SleepingOptimizer(params, pace, case.optimizer_s / case.numel)


class Trained:
    """A copy of the model, trained in one way. `step`: takes a step of it."""

    def __init__(self, model: nn.Module, way: Way, case: Case, pace: Pace) -> None:
        self.way = way
        self._pace = pace
        self._input = torch.zeros(1, requires_grad=True)
        self._steps = 0
        self.module = self._wrap(copy.deepcopy(model))
        params = list(self.module.parameters())
        self._optimizer: torch.optim.Optimizer
        if way.zero1:
            per_element = case.optimizer_s / case.numel
            self._optimizer = ZeroRedundancyOptimizer(
                params,
                optimizer_class=SleepingOptimizer,
                pace=pace,
                seconds_per_element=per_element,
            )
        else:
            self._optimizer = optimizer_of(params, case, pace)

    def _wrap(self, model: nn.Module) -> nn.Module:
        way = self.way
        if way.bucket_mb:
            ddp = DDP(
                model, bucket_cap_mb=way.bucket_mb, gradient_as_bucket_view=True, init_sync=False
            )
            if way.bf16:
                ddp.register_comm_hook(None, bf16_compress_hook)
            return ddp
        if way.fsdp:
            mesh = _mesh_of_hosts() if way.hybrid else None
            for block in model.get_submodule("blocks"):  # type: ignore[attr-defined]
                fully_shard(block, mesh=mesh, reshard_after_forward=not way.whole)
            fully_shard(model, mesh=mesh, reshard_after_forward=not way.whole)
        return model

    def step(self) -> None:
        for number in range(self.way.local_steps or 1):
            self._pace.begin_step()
            self._optimizer.zero_grad()
            self._passes()
            self._optimizer.step()
            if self.way.local_steps and number == self.way.local_steps - 1:
                average_parameters(self.module.parameters(), dist.group.WORLD)

    def _passes(self) -> None:
        for number in range(self.way.passes):
            is_last = number == self.way.passes - 1
            accumulates = isinstance(self.module, DDP) and not is_last
            with self.module.no_sync() if accumulates else contextlib.nullcontext():
                self.module(self._input).sum().backward()


def busy_s() -> tuple[float, float]:
    """Returns for how long all processors were busy, and how long they were there, in ticks."""
    fields = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    ticks = [float(field) for field in fields]
    idle = ticks[3] + ticks[4]
    return sum(ticks) - idle, sum(ticks)


@dataclasses.dataclass
class Moments:
    """Of this rank's steps of one way: begin and end, in seconds of the machine's clock."""

    begins: list[float] = dataclasses.field(default_factory=list)
    ends: list[float] = dataclasses.field(default_factory=list)

    def add(self, step: Callable[[], None]) -> None:
        dist.barrier()
        self.begins.append(time.monotonic())
        step()
        self.ends.append(time.monotonic())


def measure(case: Case, pace: Pace, names: list[str], rounds: int) -> dict[str, Any]:
    """Takes so many steps of all ways in turn. Returns what rank 0 writes."""
    model = model_of(case, pace)
    ways = [way for way in all_ways(_ranks_per_host()) if not names or way.name in names]
    trained = [Trained(model, way, case, pace) for way in ways]
    pace.is_on = False
    for one in trained:  # DDP makes its buckets anew after the first step
        one.step()
    pace.is_on = True
    dist.barrier()
    moments = [Moments() for _ in trained]
    busy, there = busy_s()
    for number in range(rounds):
        for i in range(len(trained)):
            turn = (number + i) % len(trained)  # no way always follows the same one
            moments[turn].add(trained[turn].step)
    dist.barrier()
    busy_end, there_end = busy_s()
    return {
        "busy": (busy_end - busy) / (there_end - there),
        "rows": {way.name: _row(own) for way, own in zip(ways, moments, strict=True)},
    }


def _row(own: Moments) -> dict[str, list[float]]:
    """`steps`: seconds from the last rank's begin to the last rank's end. `own`: of each rank, its
    steps' mean. All ranks call this.
    """
    begins, ends = _of_all_ranks(own.begins), _of_all_ranks(own.ends)
    steps = ends.max(0).values - begins.max(0).values
    return {"steps": _seconds(steps), "own": _seconds((ends - begins).mean(1))}


def _of_all_ranks(moments: list[float]) -> torch.Tensor:
    """Returns a row of moments of each rank."""
    own = torch.tensor(moments, dtype=torch.float64)
    rows = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(rows, own)
    return torch.stack(rows)


def _seconds(values: torch.Tensor) -> list[float]:
    return [round(value, 6) for value in values.tolist()]


def hop() -> float:
    """Returns seconds of a hop: an all-reduce passes its pieces on 2 (ranks - 1) times."""
    ranks = dist.get_world_size()
    tensor = torch.zeros(ranks * HOP_BYTES // FLOAT_BYTES)
    times = []
    for _ in range(HOP_ROUNDS):
        dist.barrier()
        begin = time.monotonic()
        dist.all_reduce(tensor)
        times.append((time.monotonic() - begin) / (2 * (ranks - 1)))
    return sorted(times)[len(times) // 2]


def train(case: Case, pace: Pace) -> None:
    """Trains until the recorder ends it: in DistributedDataParallel, or under fully_shard."""
    way = Way("recorded", fsdp=True) if case.recorded_sharded else Way("recorded", bucket_mb=25)
    trained = Trained(model_of(case, pace), way, case, pace)
    while True:
        trained.step()


def main() -> None:
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("what", choices=("measure", "train"))
    parser.add_argument("case", choices=sorted(CASES))
    parser.add_argument("out", nargs="?", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--ways", default="", help="names, separated by semicolons; default: all")
    parser.add_argument("--seed", default="", help="of random numbers")
    flags = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    case = CASES[flags.case]
    where = f"{dist.get_world_size()} ranks, {_ranks_per_host()} a host"
    seed = f"{flags.seed}, {flags.case}, {flags.what}, {where}"
    pace = Pace(case, dist.get_rank(), seed)
    if flags.what == "train":
        train(case, pace)
    rate = int(os.environ.get("GRADSYNC_LINK_RATE", "0"))
    names = [name for name in flags.ways.split(";") if name]
    found = measure(case, pace, names, flags.rounds) if rate else {"hop_s": hop()}
    if dist.get_rank() == 0:
        assert flags.out
        facts = {
            "case": flags.case,
            "world_size": dist.get_world_size(),
            "ranks_per_host": _ranks_per_host(),
            "link_rate": rate,
        }
        with flags.out.open("a") as file:
            file.write(json.dumps({**facts, **found}) + "\n")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
