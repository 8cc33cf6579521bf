"""Three losses on one graph, each with its own backward, the graph kept for the first two."""

import torch
from torch import nn

torch.manual_seed(0)
body, heads = nn.Sequential(nn.Linear(4, 8), nn.ReLU()), nn.ModuleList([nn.Linear(8, 1) for _ in range(3)])
optimizer = torch.optim.Adam([*body.parameters(), *heads.parameters()])
for _ in range(8):
    h = body(torch.randn(8, 4))
    losses = [(head(h) - k).pow(2).mean() for k, head in enumerate(heads)]
    for k, loss in enumerate(losses):
        loss.backward(retain_graph=k < 2)
    optimizer.step()
    optimizer.zero_grad()
