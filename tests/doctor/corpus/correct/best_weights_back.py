"""Early stopping: the best weights are cloned, put back, and training goes on with a reset optimizer."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
start = optimizer.state_dict()
x, y = torch.randn(32, 4), torch.randn(32, 1)
best, weights, patience = float("inf"), None, 0
for epoch in range(30):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    value = nn.functional.mse_loss(model(torch.randn(32, 4)), y).item()
    if value < best:
        best, weights, patience = value, {k: v.detach().clone() for k, v in model.state_dict().items()}, 0
    else:
        patience += 1
    if patience == 5:
        model.load_state_dict(weights)
        optimizer.load_state_dict(start)
        patience = 0
