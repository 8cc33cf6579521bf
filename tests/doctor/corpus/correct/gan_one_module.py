"""Correct as well: gan one module."""

import torch
from torch import nn


class GAN(nn.Module):
    def __init__(self):
        super().__init__()
        self.generator = nn.Linear(3, 4)
        self.discriminator = nn.Linear(4, 1)

    def toggle(self, which):
        for p in self.parameters():
            p.requires_grad_(False)
        for p in which.parameters():
            p.requires_grad_(True)


torch.manual_seed(0)
gan = GAN()
og, od = torch.optim.Adam(gan.generator.parameters()), torch.optim.Adam(gan.discriminator.parameters())
for _ in range(6):
    gan.toggle(gan.generator)
    og.zero_grad()
    (-gan.discriminator(gan.generator(torch.randn(6, 3))).mean()).backward()
    og.step()
    gan.toggle(gan.discriminator)
    od.zero_grad()
    (
        gan.discriminator(gan.generator(torch.randn(6, 3)).detach()) - gan.discriminator(torch.randn(6, 4))
    ).mean().backward()
    od.step()
