"""Weights in bfloat16 and a small learning rate: every update is rounded away."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(8, 4).to(torch.bfloat16)
with torch.no_grad():
    model.weight.fill_(1.0)
    model.bias.fill_(1.0)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
for _ in range(6):
    optimizer.zero_grad()
    model(torch.randn(8, 8).to(torch.bfloat16)).float().pow(2).mean().backward()
    optimizer.step()  # <- update-lost
