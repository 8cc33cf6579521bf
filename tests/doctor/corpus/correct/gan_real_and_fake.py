"""A GAN: two backward calls for the discriminator; the generator's loss leaves gradients in it."""

import torch
from torch import nn

torch.manual_seed(0)
G, D = (
    nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 4)),
    nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)),
)
opt_g, opt_d = torch.optim.Adam(G.parameters(), lr=2e-4), torch.optim.Adam(D.parameters(), lr=2e-4)
bce = nn.BCEWithLogitsLoss()
for _ in range(8):
    opt_d.zero_grad()
    bce(D(torch.randn(8, 4)), torch.ones(8, 1)).backward()
    fake = G(torch.randn(8, 2))
    bce(D(fake.detach()), torch.zeros(8, 1)).backward()
    opt_d.step()
    opt_g.zero_grad()
    bce(D(fake), torch.ones(8, 1)).backward()
    opt_g.step()
