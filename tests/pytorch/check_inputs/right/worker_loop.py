"""A loop of workers: prepared model, sampled shards, validation first, reports and checkpoints."""

import os
import tempfile

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from parts import net, rank, world


def prepare_loader(dataset: TensorDataset, batch: int) -> DataLoader:
    sampler = DistributedSampler(dataset, num_replicas=world, rank=rank, shuffle=True, seed=3)
    return DataLoader(dataset, batch, sampler=sampler)


@torch.no_grad()
def validate(model: torch.nn.Module, loader: DataLoader) -> dict[str, float]:
    model.eval()
    sums = torch.zeros(2)
    for x, y in loader:
        out = model(x)
        sums += torch.tensor([float(F.cross_entropy(out, y, reduction="sum")), len(y)])
    dist.all_reduce(sums)
    model.train()
    return {"loss": float(sums[0] / sums[1])}


def report(metrics: dict[str, float], model: torch.nn.Module) -> None:
    if rank == 0:
        with tempfile.TemporaryDirectory() as folder:
            torch.save(model.state_dict(), os.path.join(folder, "model.pt"))
    dist.barrier()


def train_loop_per_worker(config: dict[str, float]) -> None:
    draw = torch.Generator().manual_seed(1)
    rows = torch.randn(96, 16, generator=draw)
    dataset = TensorDataset(rows, torch.randint(4, (96,), generator=draw))
    loader = prepare_loader(dataset, int(config["batch"]))
    model = DistributedDataParallel(net())
    optimizer = torch.optim.Adam(model.parameters(), lr=config["lr"])
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
    report(validate(model, loader), model)
    for epoch in range(3):
        loader.sampler.set_epoch(epoch)
        for x, y in loader:
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        metrics = validate(model, loader)
        schedule.step(metrics["loss"])
        report(metrics, model)


train_loop_per_worker({"lr": 1e-3, "batch": 8})
dist.destroy_process_group()
