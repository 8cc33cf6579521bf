"""The factor of the learning rate is an integer division: zero for the whole run."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: (epoch + 1) // 100)
for epoch in range(20):
    x = torch.randn(16, 4)
    optimizer.zero_grad()
    (model(x) - x.sum(1, keepdim=True)).pow(2).mean().backward()
    optimizer.step()  # <- update-lost
    scheduler.step()
