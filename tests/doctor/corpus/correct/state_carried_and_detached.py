"""Truncated backpropagation: the state goes on without its history; one backward covers two chunks."""

import torch
from torch import nn

torch.manual_seed(0)
cell, head = nn.LSTMCell(3, 5), nn.Linear(5, 1)
optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()])
h = c = torch.zeros(2, 5)
loss = torch.zeros(())
losses = []
for t in range(40):
    h, c = cell(torch.randn(2, 3), (h, c))
    loss = loss + head(h).pow(2).mean()
    if t % 4 == 3:
        optimizer.zero_grad()
        (loss / 4).backward()
        optimizer.step()
        losses.append(loss.detach())
        h, c, loss = h.detach(), c.detach(), torch.zeros(())
