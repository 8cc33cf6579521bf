"""Another mistake: freeze list."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
frozen = [model[0]]
for layer in frozen:
    layer.requires_grads = False  # <- freeze-ineffective
for _ in range(4):
    opt.zero_grad()
    nn.functional.cross_entropy(model(torch.randn(6, 4)), torch.randint(0, 2, (6,))).backward()
    opt.step()
