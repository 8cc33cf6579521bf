"""Another mistake: reused no call."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(2):
    for _ in range(4):
        x, y = torch.randn(6, 5), torch.randint(0, 2, (6,))
        optimizer.zero_grad
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()  # <- gradient-reused
