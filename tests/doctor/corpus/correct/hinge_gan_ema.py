"""A hinge GAN with an averaged generator, flags toggled, one side cleared to zeros."""

import copy

import torch
from torch import nn

torch.manual_seed(0)
g, d = (
    nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2)),
    nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1)),
)
shadow = copy.deepcopy(g).eval().requires_grad_(False)
opt_g, opt_d = (
    torch.optim.Adam(g.parameters(), 1e-3, (0.0, 0.9)),
    torch.optim.Adam(d.parameters(), 1e-3, (0.0, 0.9)),
)
for i in range(12):
    d.requires_grad_(True)
    for _ in range(2):
        opt_d.zero_grad(set_to_none=False)
        with torch.no_grad():
            fake = g(torch.randn(8, 2))
        torch.relu(1 - d(torch.randn(8, 2) + 1)).mean().backward()
        torch.relu(1 + d(fake)).mean().backward()
        opt_d.step()
    d.requires_grad_(False)
    opt_g.zero_grad()
    (-d(g(torch.randn(8, 2))).mean()).backward()
    opt_g.step()
    with torch.no_grad():
        for a, b in zip(shadow.parameters(), g.parameters()):
            a.lerp_(b, 0.1)
