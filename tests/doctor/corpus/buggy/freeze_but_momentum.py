"""Freezing with gradients left at zero instead of None: momentum goes on moving the frozen layer."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for epoch in range(8):
    if epoch == 3:
        for p in model[0].parameters():
            p.requires_grad_(False)  # <- freeze-ineffective
    x = torch.randn(16, 4)
    optimizer.zero_grad(set_to_none=False)
    (model(x) - x.sum(1, keepdim=True)).pow(2).mean().backward()
    optimizer.step()
