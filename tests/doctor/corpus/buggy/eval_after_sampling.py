"""The sample() helper puts the generator with BatchNorm into eval mode to draw pictures and never back."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
G = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2))
D = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
opt_g = torch.optim.Adam(G.parameters(), lr=1e-3, betas=(0.5, 0.999))
opt_d = torch.optim.Adam(D.parameters(), lr=1e-3, betas=(0.5, 0.999))
fixed_noise = torch.randn(16, 4)


@torch.no_grad()
def sample():
    G.eval()  # <- eval-mode-training
    return G(fixed_noise)


for it in range(20):
    real = torch.randn(32, 2) * 0.3 + 1
    fake = G(torch.randn(32, 4))
    d_loss = F.softplus(-D(real)).mean() + F.softplus(D(fake.detach())).mean()
    opt_d.zero_grad()
    d_loss.backward()
    opt_d.step()
    g_loss = F.softplus(-D(fake)).mean()
    opt_g.zero_grad()
    g_loss.backward()
    opt_g.step()
    if it == 6:
        print("mean of samples", sample().mean(0).tolist())
print(d_loss.item(), g_loss.item())
