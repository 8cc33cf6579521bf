"""Two losses over one graph, with retain_graph."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(6):
    out = model(torch.randn(8, 4))
    optimizer.zero_grad()
    out[:, 0].pow(2).mean().backward(retain_graph=True)
    out[:, 1].abs().mean().backward()
    optimizer.step()
