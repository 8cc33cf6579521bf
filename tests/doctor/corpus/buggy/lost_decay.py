"""Another mistake: lost decay."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(5, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[2, 3], gamma=0.0)
for _ in range(12):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(torch.randn(6, 5)), torch.ones(6, 1)).backward()
    optimizer.step()  # <- update-lost
    scheduler.step()
