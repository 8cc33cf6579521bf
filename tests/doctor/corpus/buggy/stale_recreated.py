"""Another mistake: stale recreated."""
# companions: step-without-gradient, parameter-not-in-optimizer, outside-accumulation

import torch
from torch import nn


def build():
    return nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 1))


torch.manual_seed(0)
model = build()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
model = build()
for _ in range(5):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(torch.randn(6, 5)), torch.ones(6, 1)).backward()
    optimizer.step()  # <- optimizer-stale-parameter
