"""The oldest one: a loop without zero_grad."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.randn(16, 3), torch.randn(16, 1)
for step in range(5):
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()  # <- gradient-reused
