"""Activation checkpointing runs parts of forward again inside backward."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Blocks(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(3))
        self.out = nn.Linear(6, 1)

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.out(x)


torch.manual_seed(0)
model = Blocks()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(5):
    optimizer.zero_grad()
    model(torch.randn(4, 6)).pow(2).mean().backward()
    optimizer.step()
