"""Experts: which one runs depends on the batch; one is not used at all in this short run."""

import torch
from torch import nn


class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(4, 4) for _ in range(4))
        self.out = nn.Linear(4, 1)

    def forward(self, x, which):
        return self.out(self.experts[which](x))


torch.manual_seed(0)
model = Mixture()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(9):
    optimizer.zero_grad()
    model(torch.randn(8, 4), (0, 2, 1)[step % 3]).pow(2).mean().backward()
    optimizer.step()
