"""The scheduler steps in every micro-batch, the optimizer in every fourth."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=4)
optimizer.zero_grad()
for i in range(16):
    loss = model(torch.randn(8, 4)).pow(2).mean() / 4
    loss.backward()
    if (i + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
    scheduler.step()  # <- scheduler-misplaced
