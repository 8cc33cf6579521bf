"""Another mistake: vanishing conv."""

import torch
from torch import nn

torch.manual_seed(0)
blocks = []
for i in range(14):
    blocks += [nn.Conv1d(4, 4, 3, padding=1), nn.Sigmoid()]
model = nn.Sequential(*blocks, nn.Flatten(), nn.Linear(32, 2))
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(5):
    opt.zero_grad()
    loss = nn.functional.cross_entropy(model(torch.randn(4, 4, 8)), torch.randint(0, 2, (4,)))
    loss.backward()  # <- gradient-vanishing
    opt.step()
