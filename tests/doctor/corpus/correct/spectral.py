"""Correct as well: spectral."""

import torch
from torch import nn

torch.manual_seed(0)
D = nn.Sequential(
    nn.utils.parametrizations.spectral_norm(nn.Linear(4, 6)), nn.LeakyReLU(0.1), nn.Linear(6, 1)
)
G = nn.Linear(2, 4)
od, og = torch.optim.Adam(D.parameters(), lr=1e-3), torch.optim.Adam(G.parameters(), lr=1e-3)
for _ in range(6):
    fake = G(torch.randn(8, 2))
    od.zero_grad()
    (torch.relu(1 - D(torch.randn(8, 4))).mean() + torch.relu(1 + D(fake.detach())).mean()).backward()
    od.step()
    og.zero_grad()
    (-D(fake).mean()).backward()
    og.step()
