"""Gradients are set to None by hand between backward and step."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(5):
    x = torch.randn(8, 4)
    model(x).pow(2).mean().backward()
    for p in model.parameters():
        p.grad = None  # <- gradient-discarded
    optimizer.step()
