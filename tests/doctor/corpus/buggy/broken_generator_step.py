"""The generator's step was copied from the discriminator's, with its detach()."""

# companions: step-without-gradient
import torch
from torch import nn

torch.manual_seed(0)
G, D = nn.Linear(2, 4), nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
opt_g, opt_d = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
bce = nn.functional.binary_cross_entropy_with_logits
for _ in range(5):
    real, noise = torch.randn(8, 4), torch.randn(8, 2)
    opt_d.zero_grad()
    fake = G(noise)
    loss_d = bce(D(real), torch.ones(8, 1)) + bce(D(fake.detach()), torch.zeros(8, 1))
    loss_d.backward()
    opt_d.step()
    opt_g.zero_grad()
    fake = G(noise)
    loss_g = bce(D(fake.detach()), torch.ones(8, 1))  # <- graph-broken
    loss_g.backward()
    opt_g.step()
