"""Gradients are zeroed by hand in every micro-batch of a window."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for i in range(24):
    x = torch.randn(8, 4)
    loss = model(x).pow(2).mean() / 4
    for p in model.parameters():
        if p.grad is not None:
            p.grad.zero_()  # <- gradient-discarded
    loss.backward()
    if i % 4 == 3:
        optimizer.step()
