"""WGAN-GP: the penalty needs create_graph."""

import torch
from torch import nn

torch.manual_seed(0)
G, C = nn.Linear(2, 4), nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
opt_g, opt_c = torch.optim.Adam(G.parameters(), lr=1e-3), torch.optim.Adam(C.parameters(), lr=1e-3)
for _ in range(6):
    real, fake = torch.randn(8, 4), G(torch.randn(8, 2)).detach()
    mix = torch.rand(8, 1)
    between = (mix * real + (1 - mix) * fake).requires_grad_(True)
    (slope,) = torch.autograd.grad(C(between).sum(), between, create_graph=True)
    penalty = (slope.norm(dim=1) - 1).pow(2).mean()
    opt_c.zero_grad()
    (C(fake).mean() - C(real).mean() + 10 * penalty).backward()
    opt_c.step()
    opt_g.zero_grad()
    (-C(G(torch.randn(8, 2))).mean()).backward()
    opt_g.step()
