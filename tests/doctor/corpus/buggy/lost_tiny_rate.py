"""Another mistake: lost tiny rate."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(5, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-12)
for _ in range(6):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(torch.randn(6, 5)), torch.ones(6, 1)).backward()
    optimizer.step()  # <- update-lost
