"""As Accelerate's notebook_launcher: the script starts the processes that train."""

import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn


def train(rank: int, world: int, port: str) -> None:
    address = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("gloo", address, rank=rank, world_size=world)
    torch.manual_seed(0)
    model = nn.Linear(12, 5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(rank)
    for _step in range(6):
        optimizer.zero_grad()
        model(torch.randn(8, 12)).square().mean().backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    port = str(29731 + 2 * int(os.environ.get("RANK", "0")))
    context = mp.get_context("spawn")
    workers = [context.Process(target=train, args=(rank, 2, port)) for rank in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
