"""As transformers' examples without Trainer: workers, a sampler by rank, a scheduler, and epochs whose last step has one
pass instead of two. The model returns an object with its loss.
"""

import contextlib
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler

ACCUMULATION = 2


@dataclass
class Output:
    loss: torch.Tensor
    logits: torch.Tensor


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embeddings, self.classifier = nn.Embedding(30, 16), nn.Linear(16, 3)
        self.dropout = nn.Dropout(0.1)

    def forward(self, input_ids, labels):
        logits = self.classifier(self.dropout(self.embeddings(input_ids).mean(1)))
        return Output(nn.functional.cross_entropy(logits, labels), logits)


class Sentences(Dataset):
    def __len__(self):
        return 2 * 8 * 7

    def __getitem__(self, i):
        return {"input_ids": torch.arange(12).add(i) % 30, "labels": i % 3}


def main():
    dist.init_process_group("gloo")
    model = DDP(Classifier())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, 1000)
    data = Sentences()
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=8, sampler=sampler, num_workers=1, persistent_workers=True)
    for epoch in range(300):
        sampler.set_epoch(epoch)
        model.train()
        for number, batch in enumerate(loader):
            is_last = (number + 1) % ACCUMULATION == 0 or number == len(loader) - 1
            with contextlib.nullcontext() if is_last else model.no_sync():
                output = model(**batch)
                (output.loss / ACCUMULATION).backward()
            if is_last:
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()


if __name__ == "__main__":
    main()
