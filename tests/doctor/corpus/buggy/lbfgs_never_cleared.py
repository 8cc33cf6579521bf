"""The closure of LBFGS never clears: from the second step on, gradients of earlier steps are in it."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(3, 1)
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.05, max_iter=2)
x, y = torch.randn(16, 3), torch.randn(16, 1)


def closure():
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    return loss


for _ in range(4):
    optimizer.step(closure)  # <- gradient-reused
