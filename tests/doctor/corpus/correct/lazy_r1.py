"""Correct as well: lazy r1."""

import torch
from torch import nn

torch.manual_seed(0)
G, D = nn.Linear(3, 4), nn.Sequential(nn.Linear(4, 6), nn.Softplus(), nn.Linear(6, 1))
og, od = (
    torch.optim.Adam(G.parameters(), lr=1e-3, betas=(0.0, 0.99)),
    torch.optim.Adam(D.parameters(), lr=1e-3, betas=(0.0, 0.99)),
)
for i in range(8):
    real = torch.randn(6, 4)
    od.zero_grad()
    (
        nn.functional.softplus(D(G(torch.randn(6, 3)).detach())) + nn.functional.softplus(-D(real))
    ).mean().backward()
    od.step()
    if i % 4 == 0:
        real.requires_grad_(True)
        (g,) = torch.autograd.grad(D(real).sum(), real, create_graph=True)
        od.zero_grad()
        (g.pow(2).sum(1).mean() * 4).backward()
        od.step()
    og.zero_grad()
    nn.functional.softplus(-D(G(torch.randn(6, 3)))).mean().backward()
    og.step()
