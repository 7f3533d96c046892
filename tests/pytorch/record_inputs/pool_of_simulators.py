"""Processes of a pool make the data by copies of the model, and do not train; the parent does, and logs averages of ranks."""

import multiprocessing

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def simulate(seed):
    torch.manual_seed(seed)
    with torch.no_grad():
        policy = nn.Linear(8, 2)
        states = torch.randn(16, 8)
        return states.tolist(), policy(states).argmax(-1).tolist()


def main():
    dist.init_process_group("gloo")
    model = DDP(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2)))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        for step in range(1500):
            states, actions = map(torch.tensor, pool.apply(simulate, (step,)))
            loss = nn.functional.cross_entropy(model(states), actions)
            logged = loss.detach().clone()
            dist.all_reduce(logged, op=dist.ReduceOp.AVG if dist.get_backend() == "nccl" else dist.ReduceOp.SUM)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
