"""A script that starts its own ranks by multiprocessing, with a queue for what they found."""

import multiprocessing
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def rank_main(rank, world_size, results):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29731", RANK=str(rank), WORLD_SIZE=str(world_size))
    dist.init_process_group("gloo")
    model = DDP(nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(300):
        optimizer.zero_grad()
        model(torch.randn(8, 16)).square().mean().backward()
        optimizer.step()
    results.put(rank)
    dist.destroy_process_group()


if __name__ == "__main__":
    context = multiprocessing.get_context("forkserver")
    results = context.Queue()
    ranks = [context.Process(target=rank_main, args=(rank, 2, results)) for rank in range(2)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
    print(sorted(results.get() for _ in ranks))
