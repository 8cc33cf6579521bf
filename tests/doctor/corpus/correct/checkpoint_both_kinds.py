"""Checkpointing in both kinds, one inside a loop of accumulation."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
stem = nn.Linear(4, 8)
blocks = nn.ModuleList([nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(2)])
head = nn.Linear(8, 1)
optimizer = torch.optim.AdamW([*stem.parameters(), *blocks.parameters(), *head.parameters()])
for i in range(12):
    h = stem(torch.randn(8, 4))
    for k, block in enumerate(blocks):
        h = checkpoint(block, h, use_reentrant=k == 0)
    (head(h).pow(2).mean() / 2).backward()
    if i % 2 == 1:
        optimizer.step()
        optimizer.zero_grad()
