"""Stochastic weight averaging with its own schedule, and statistics of normalisation renewed at the end."""

import torch
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
averaged = AveragedModel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
usual, late = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10), SWALR(optimizer, swa_lr=0.01)
for epoch in range(10):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).pow(2).mean().backward()
    optimizer.step()
    if epoch >= 6:
        averaged.update_parameters(model)
        late.step()
    else:
        usual.step()
averaged.train()
with torch.no_grad():
    averaged(torch.randn(8, 4))
