"""Reentrant checkpointing of the first block: its input needs no gradient, so the block gets none."""

import warnings

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

warnings.simplefilter("ignore")
torch.manual_seed(0)
stem, head = nn.Sequential(nn.Linear(4, 8), nn.ReLU()), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*stem.parameters(), *head.parameters()], lr=0.01)
for _ in range(12):
    x = torch.randn(8, 4)
    hidden = checkpoint(stem, x, use_reentrant=True)
    loss = head(hidden).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()  # <- parameter-without-gradient
