"""Another mistake: freeze between."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(6):
    loss = nn.functional.cross_entropy(model(torch.randn(6, 5)), torch.randint(0, 2, (6,)))
    loss.backward()
    if step == 3:
        model[0].requires_grad_(False)  # <- freeze-ineffective
    optimizer.step()
    optimizer.zero_grad()
