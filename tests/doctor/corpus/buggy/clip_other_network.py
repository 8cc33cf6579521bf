"""The old network is clipped, the new one is trained."""

import torch
from torch import nn

torch.manual_seed(0)
old, model = nn.Linear(4, 1), nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).pow(2).mean().backward()
    nn.utils.clip_grad_norm_(old.parameters(), 0.5)  # <- clip-nothing
    optimizer.step()
