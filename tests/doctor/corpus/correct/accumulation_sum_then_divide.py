"""Losses are summed over tokens; gradients are divided once by their number."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(5):
    optimizer.zero_grad()
    tokens = 0
    for _ in range(3):
        n = int(torch.randint(2, 9, ()))
        nn.functional.cross_entropy(
            model(torch.randn(n, 4)), torch.randint(0, 3, (n,)), reduction="sum"
        ).backward()
        tokens += n
    for p in model.parameters():
        p.grad.div_(tokens)
    optimizer.step()
