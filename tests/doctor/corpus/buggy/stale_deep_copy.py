"""The copy is trained, the optimizer has the original."""

# companions: step-without-gradient
import copy

import torch
from torch import nn

torch.manual_seed(0)
base = nn.Linear(4, 1)
optimizer = torch.optim.Adam(base.parameters(), lr=1e-2)
model = copy.deepcopy(base)  # <- optimizer-stale-parameter
for _ in range(5):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).pow(2).mean().backward()
    optimizer.step()
