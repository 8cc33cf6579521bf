"""Windows end when enough tokens were seen; the rest of an epoch is stepped as well. No DataLoader."""

import random

import torch
from torch import nn

torch.manual_seed(0)
random.seed(1)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(4):
    seen = 0
    for _ in range(11):
        count = random.randint(1, 9)
        (model(torch.randn(count, 4)).pow(2).sum() / 16).backward()
        seen += count
        if seen >= 16:
            optimizer.step()
            optimizer.zero_grad()
            seen = 0
    if seen:
        optimizer.step()
        optimizer.zero_grad()
