"""The learning rate of one group was left at 0."""

import torch
from torch import nn

torch.manual_seed(0)
backbone, head = nn.Linear(4, 8), nn.Linear(8, 2)
optimizer = torch.optim.Adam(
    [{"params": backbone.parameters(), "lr": 0.0}, {"params": head.parameters()}], lr=1e-3
)
for _ in range(6):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(
        head(torch.relu(backbone(torch.randn(8, 4)))), torch.randint(0, 2, (8,))
    )
    loss.backward()
    optimizer.step()  # <- update-lost
