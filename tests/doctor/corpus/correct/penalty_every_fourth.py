"""A gradient penalty with create_graph, added in every fourth step with a backward of its own."""

import torch
from torch import nn

torch.manual_seed(0)
critic = nn.Sequential(nn.Linear(2, 8), nn.Softplus(), nn.Linear(8, 1))
optimizer = torch.optim.RMSprop(critic.parameters(), lr=1e-3)
for i in range(16):
    real, fake = torch.randn(8, 2) + 1, torch.randn(8, 2)
    optimizer.zero_grad()
    (critic(fake).mean() - critic(real).mean()).backward()
    if i % 4 == 0:
        share = torch.rand(8, 1)
        mixed = (share * real + (1 - share) * fake).requires_grad_(True)
        (slope,) = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
        (40 * (slope.norm(dim=1) - 1).pow(2).mean()).backward()
    optimizer.step()
