"""Another mistake: retained smoothed."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(5, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.01)
smooth = None
for _ in range(14):
    loss = model(torch.randn(6, 5)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    smooth = loss if smooth is None else 0.9 * smooth + 0.1 * loss  # <- graph-retained
