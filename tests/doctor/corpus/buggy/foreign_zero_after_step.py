"""Another mistake: foreign zero after step."""

import torch
from torch import nn


class GAN:
    def __init__(self):
        self.G = nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 4))
        self.D = nn.Sequential(nn.Linear(4, 6), nn.LeakyReLU(), nn.Linear(6, 1))
        self.g_opt = torch.optim.Adam(self.G.parameters(), lr=1e-3)
        self.d_opt = torch.optim.Adam(self.D.parameters(), lr=1e-3)

    def train_d(self, real):
        fake = self.G(torch.randn(len(real), 3)).detach()
        loss = (self.D(fake) - self.D(real)).mean()
        loss.backward()
        self.d_opt.step()  # <- foreign-gradient
        self.d_opt.zero_grad()

    def train_g(self, n):
        loss = -self.D(self.G(torch.randn(n, 3))).mean()
        loss.backward()
        self.g_opt.step()
        self.g_opt.zero_grad()


torch.manual_seed(0)
gan = GAN()
for _ in range(5):
    gan.train_d(torch.randn(6, 4))
    gan.train_g(6)
