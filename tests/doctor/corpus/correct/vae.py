"""Correct as well: vae."""

import torch
from torch import nn


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.mu, self.logvar, self.dec = (
            nn.Linear(6, 5),
            nn.Linear(5, 2),
            nn.Linear(5, 2),
            nn.Linear(2, 6),
        )

    def forward(self, x):
        h = torch.relu(self.enc(x))
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        return self.dec(z), mu, logvar


torch.manual_seed(0)
model = VAE()
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(6):
    x = torch.rand(8, 6)
    out, mu, logvar = model(x)
    loss = (
        nn.functional.binary_cross_entropy_with_logits(out, x, reduction="sum")
        - 0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum()
    )
    opt.zero_grad()
    loss.backward()
    opt.step()
