"""One block, called six times (ALBERT, universal transformers), under reentrant checkpoints, with a static graph."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.checkpoint import checkpoint


class Albert(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.project = nn.Embedding(30, 8), nn.Linear(8, 24)
        self.shared = nn.TransformerEncoderLayer(24, 4, 32, dropout=0.0, batch_first=True)
        self.head = nn.Linear(24, 30)

    def forward(self, tokens):
        x = self.project(self.embedding(tokens))
        for _ in range(6):
            x = checkpoint(self.shared, x, use_reentrant=True)
        return self.head(x)


dist.init_process_group("gloo")
torch.manual_seed(0)
model = DDP(Albert(), static_graph=True, gradient_as_bucket_view=True, bucket_cap_mb=1)
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-4)
torch.manual_seed(dist.get_rank())
for step in range(2000):
    tokens = torch.randint(30, (4, 10))
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()).backward()
    optimizer.step()
