"""Correct as well: byol."""

import copy

import torch
from torch import nn

torch.manual_seed(0)
online = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3))
target, predictor = copy.deepcopy(online), nn.Linear(3, 3)
opt = torch.optim.Adam([*online.parameters(), *predictor.parameters()], lr=1e-3)
for _ in range(6):
    a, b = torch.randn(8, 4), torch.randn(8, 4)
    with torch.no_grad():
        ta, tb = target(a), target(b)
    loss = nn.functional.mse_loss(predictor(online(a)), tb) + nn.functional.mse_loss(predictor(online(b)), ta)
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        for p, q in zip(target.parameters(), online.parameters()):
            p.lerp_(q, 0.05)
