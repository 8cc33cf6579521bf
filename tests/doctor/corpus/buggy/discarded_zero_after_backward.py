"""zero_grad between backward and step."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters())
for _ in range(4):
    loss = model(torch.randn(8, 4)).pow(2).mean()
    loss.backward()
    optimizer.zero_grad()  # <- gradient-discarded
    optimizer.step()
