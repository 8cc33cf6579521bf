"""A3C: a local copy computes gradients, the shared model's .grad is set to them, the copy is synchronized."""

import torch
from torch import nn

torch.manual_seed(0)
shared, local = nn.Linear(4, 2), nn.Linear(4, 2)
optimizer = torch.optim.RMSprop(shared.parameters(), lr=1e-2)
for _ in range(6):
    local.load_state_dict(shared.state_dict())
    local.zero_grad()
    nn.functional.cross_entropy(local(torch.randn(8, 4)), torch.randint(0, 2, (8,))).backward()
    for mine, theirs in zip(local.parameters(), shared.parameters()):
        theirs.grad = mine.grad.clone()
    optimizer.step()
