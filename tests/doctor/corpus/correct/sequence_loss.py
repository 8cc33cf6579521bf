"""Correct as well: sequence loss."""

import torch
from torch import nn

torch.manual_seed(0)
cell, out = nn.GRUCell(3, 5), nn.Linear(5, 2)
opt = torch.optim.Adam([{"params": cell.parameters()}, {"params": out.parameters(), "lr": 1e-2}], lr=1e-3)
for _ in range(6):
    h, loss = torch.zeros(4, 5), 0
    for _ in range(7):
        h = cell(torch.randn(4, 3), h)
        loss += nn.functional.cross_entropy(out(h), torch.randint(0, 2, (4,)))
    opt.zero_grad()
    (loss / 7).backward()
    opt.step()
