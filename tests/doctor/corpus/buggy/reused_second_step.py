"""A second optimizer.step() on the same gradients, left over from a merge."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(3, 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for step in range(4):
    x, y = torch.randn(8, 3), torch.randn(8, 1)
    optimizer.zero_grad()
    loss = (model(x) - y).pow(2).mean()
    loss.backward()
    optimizer.step()
    if step % 2 == 0:
        print("loss", loss.item())
    optimizer.step()  # <- gradient-reused
