"""The head steps with every batch, the backbone with every fourth."""

import torch
from torch import nn

torch.manual_seed(0)
backbone, head = nn.Linear(4, 8), nn.Linear(8, 2)
slow, fast = torch.optim.SGD(backbone.parameters(), lr=0.01), torch.optim.SGD(head.parameters(), lr=0.1)
for i in range(16):
    loss = nn.functional.cross_entropy(
        head(torch.relu(backbone(torch.randn(8, 4)))), torch.randint(0, 2, (8,))
    )
    fast.zero_grad()
    loss.backward()
    fast.step()
    if i % 4 == 3:
        slow.step()
        slow.zero_grad()
