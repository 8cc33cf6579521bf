"""Frozen when the optimizer was made and filtered out; unfrozen later, but nobody told the optimizer."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
for p in model[0].parameters():
    p.requires_grad = False
trainable = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.SGD(trainable, lr=0.1)  # <- parameter-not-in-optimizer
for epoch in range(4):
    if epoch == 1:
        for p in model[0].parameters():
            p.requires_grad = True
    for _ in range(3):
        model.zero_grad()
        nn.functional.cross_entropy(model(torch.randn(8, 4)), torch.randint(0, 2, (8,))).backward()
        optimizer.step()
