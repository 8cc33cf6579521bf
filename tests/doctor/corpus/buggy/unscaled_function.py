"""Another mistake: unscaled function."""

import torch
from torch import nn


def compute(model, batch, criterion):
    x, y = batch
    return criterion(model(x), y)


torch.manual_seed(0)
model, criterion = nn.Linear(5, 1), nn.BCEWithLogitsLoss()
opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(4):
    opt.zero_grad()
    for micro in range(5):
        loss = compute(model, (torch.randn(6, 5), torch.ones(6, 1)), criterion)
        loss.backward()  # <- accumulation-unscaled
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
