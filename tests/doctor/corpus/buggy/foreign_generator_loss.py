"""The generator's loss fills the discriminator, whose gradients are not cleared before its own loss."""

import torch
from torch import nn

torch.manual_seed(0)
G, D = nn.Linear(2, 4), nn.Linear(4, 1)
opt_g, opt_d = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
bce = nn.functional.binary_cross_entropy_with_logits
for _ in range(5):
    opt_g.zero_grad()
    opt_d.zero_grad()
    fake = G(torch.randn(8, 2))
    loss_g = bce(D(fake), torch.ones(8, 1))
    loss_g.backward()
    opt_g.step()
    loss_d = bce(D(torch.randn(8, 4)), torch.ones(8, 1)) + bce(D(fake.detach()), torch.zeros(8, 1))
    loss_d.backward()
    opt_d.step()  # <- foreign-gradient
