"""A weight is re-initialized by assigning a new Parameter."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model[2].weight = nn.Parameter(torch.zeros(1, 8))
for _ in range(5):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).sub(1).pow(2).mean().backward()
    optimizer.step()  # <- optimizer-stale-parameter
