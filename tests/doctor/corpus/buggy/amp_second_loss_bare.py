"""Of two losses only one is scaled; unscaling then makes the other's gradients vanish."""

import torch
from torch import nn

torch.manual_seed(0)
trunk, a, b = nn.Linear(4, 8), nn.Linear(8, 1), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*trunk.parameters(), *a.parameters(), *b.parameters()], lr=0.01)
scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
for _ in range(5):
    x = torch.randn(8, 4)
    optimizer.zero_grad()
    hidden = torch.relu(trunk(x))
    first = (a(hidden) - 1).pow(2).mean()
    second = (b(hidden) + 1).pow(2).mean()
    scaler.scale(first).backward(retain_graph=True)
    second.backward()  # <- scaler-misused
    scaler.step(optimizer)
    scaler.update()
