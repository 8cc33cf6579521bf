"""A chain of schedulers is stepped before the optimizer: the first value of the warm-up is lost."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=5)
decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [warmup, decay], [5])
for epoch in range(8):
    scheduler.step()  # <- scheduler-misplaced
    x = torch.randn(8, 4)
    optimizer.zero_grad()
    model(x).pow(2).mean().backward()
    optimizer.step()
