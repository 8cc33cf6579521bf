"""A distance of zero is masked out by `where`; the infinite slope of its root times zero is NaN all the same."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for i in range(6):
    code = model(torch.randn(8, 3))
    squares = (code[:, None] - code[None, :]).pow(2).sum(-1)
    distance = torch.where(squares > 0, torch.sqrt(squares), torch.zeros_like(squares))
    loss = distance.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()  # <- non-finite-gradient
