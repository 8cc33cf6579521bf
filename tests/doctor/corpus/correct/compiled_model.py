"""A compiled model trains like any other."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 1))
fast = torch.compile(model, backend="eager")
optimizer = torch.optim.AdamW(fast.parameters(), lr=1e-3)
for _ in range(5):
    optimizer.zero_grad(set_to_none=True)
    nn.functional.mse_loss(fast(torch.randn(8, 4)), torch.randn(8, 1)).backward()
    optimizer.step()
