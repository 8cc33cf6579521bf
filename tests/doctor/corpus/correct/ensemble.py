"""Correct as well: ensemble."""

import copy

import torch
from torch import nn

torch.manual_seed(0)
base = nn.Linear(5, 1)
members = [copy.deepcopy(base) for _ in range(3)]
opts = [torch.optim.SGD(m.parameters(), lr=0.05) for m in members]
for _ in range(5):
    x = torch.randn(6, 5)
    for m, o in zip(members, opts):
        o.zero_grad()
        m(x).pow(2).mean().backward()
        o.step()
