"""Correct as well: early stopping."""

import copy

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(5, 6), nn.Dropout(0.1), nn.Linear(6, 1))
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
best, state, bad = float("inf"), None, 0
for epoch in range(6):
    model.train()
    for _ in range(3):
        opt.zero_grad()
        nn.functional.mse_loss(model(torch.randn(6, 5)), torch.ones(6, 1)).backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        val = nn.functional.mse_loss(model(torch.randn(6, 5)), torch.ones(6, 1)).item()
    if val < best:
        best, state, bad = val, copy.deepcopy(model.state_dict()), 0
    else:
        bad += 1
model.load_state_dict(state)
