"""Correct as well: two phases."""

import torch
from torch import nn

torch.manual_seed(0)
body, head = nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.ReLU()), nn.Linear(6, 2)
model = nn.Sequential(body, head)


def fit(opt, steps):
    for _ in range(steps):
        opt.zero_grad()
        nn.functional.cross_entropy(model(torch.randn(8, 5)), torch.randint(0, 2, (8,))).backward()
        opt.step()


for p in body.parameters():
    p.requires_grad = False
fit(torch.optim.Adam(head.parameters(), lr=1e-2), 4)
for p in body.parameters():
    p.requires_grad = True
fit(torch.optim.Adam(model.parameters(), lr=1e-3), 4)
