"""A trainable encoder runs under no_grad by accident."""

import torch
from torch import nn

torch.manual_seed(0)
encoder, head = nn.Linear(6, 4), nn.Linear(4, 2)
optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=1e-3)
for _ in range(6):
    x, y = torch.randn(8, 6), torch.randint(0, 2, (8,))
    with torch.no_grad():
        features = encoder(x)
    loss = nn.functional.cross_entropy(head(features), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()  # <- parameter-without-gradient
