"""Multi-task training with one head per task, one task per batch."""

import torch
from torch import nn


class MultiTask(nn.Module):
    def __init__(self, tasks):
        super().__init__()
        self.body = nn.Linear(4, 8)
        self.heads = nn.ModuleDict({task: nn.Linear(8, 2) for task in tasks})

    def forward(self, x, task):
        return self.heads[task](torch.relu(self.body(x)))


torch.manual_seed(0)
model = MultiTask(["a", "b", "c", "rare"])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    optimizer.zero_grad()
    nn.functional.cross_entropy(
        model(torch.randn(8, 4), "abc"[step % 3]), torch.randint(0, 2, (8,))
    ).backward()
    optimizer.step()
