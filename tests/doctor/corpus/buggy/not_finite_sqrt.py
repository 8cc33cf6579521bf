"""The loss is finite, but sqrt has no derivative at 0."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(3, 3, bias=False)
with torch.no_grad():
    model.weight.copy_(torch.eye(3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(4, 3)
for _ in range(3):
    distance = torch.sqrt((model(x) - x).pow(2).sum(1))
    optimizer.zero_grad()
    distance.mean().backward()
    optimizer.step()  # <- non-finite-gradient
