"""Twelve sigmoid layers."""

import torch
from torch import nn

torch.manual_seed(0)
layers = []
for _ in range(12):
    layers += [nn.Linear(16, 16), nn.Sigmoid()]
model = nn.Sequential(*layers, nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(6):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(torch.randn(32, 16)), torch.randn(32, 1) + 2)
    loss.backward()  # <- gradient-vanishing
    optimizer.step()
