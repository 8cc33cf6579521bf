"""One optimizer per layer, all after one backward."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizers = [
    torch.optim.SGD(layer.parameters(), lr=0.1 / (i + 1))
    for i, layer in enumerate(model)
    if list(layer.parameters())
]
for _ in range(6):
    for optimizer in optimizers:
        optimizer.zero_grad()
    model(torch.randn(8, 4)).pow(2).mean().backward()
    for optimizer in optimizers:
        optimizer.step()
