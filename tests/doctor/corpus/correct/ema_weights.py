"""An exponential moving average of the weights, evaluated now and then."""

import copy

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
ema = copy.deepcopy(model).eval()
for p in ema.parameters():
    p.requires_grad_(False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).pow(2).mean().backward()
    optimizer.step()
    with torch.no_grad():
        for p, q in zip(ema.parameters(), model.parameters()):
            p.mul_(0.9).add_(q, alpha=0.1)
        if step % 3 == 0:
            ema(torch.randn(8, 4))
