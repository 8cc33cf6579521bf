"""Frozen in the middle of training: zeros stay in .grad, and momentum moves the weights on."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-2)
for epoch in range(4):
    if epoch == 2:
        for p in model[0].parameters():
            p.requires_grad = False  # <- freeze-ineffective
    for _ in range(3):
        optimizer.zero_grad(set_to_none=False)
        nn.functional.cross_entropy(model(torch.randn(8, 4)), torch.randint(0, 2, (8,))).backward()
        optimizer.step()
