"""The best weights are deep-copied, stochastic weight averaging runs along."""

import copy

import torch
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel

torch.manual_seed(0)
model = nn.Linear(4, 1)
average = AveragedModel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = SWALR(optimizer, swa_lr=0.05)
best = None
for epoch in range(6):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(torch.randn(8, 4)), torch.zeros(8, 1))
    loss.backward()
    optimizer.step()
    average.update_parameters(model)
    scheduler.step()
    if best is None or loss.item() < best[0]:
        best = loss.item(), copy.deepcopy(model)
