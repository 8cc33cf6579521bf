"""When the loss rises, the best copy takes the model's place, but the optimizer keeps the old one."""
# companions: step-without-gradient, parameter-not-in-optimizer, parameter-without-gradient, gradient-reused

import copy

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
x, y = torch.randn(32, 3), torch.randn(32, 1)
best = None
for epoch in range(12):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    if epoch == 4:
        best = copy.deepcopy(model)  # <- optimizer-stale-parameter
    if epoch == 6:
        model = best
