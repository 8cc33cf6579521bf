"""The clipping is applied to the EMA copy, which never has a gradient, instead of the trained model."""

import copy

import torch
from torch import nn


class EMA:
    def __init__(self, model, decay=0.99):
        self.module = copy.deepcopy(model).eval().requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, model):
        for e, p in zip(self.module.parameters(), model.parameters()):
            e.lerp_(p, 1 - self.decay)


class Denoiser(nn.Module):
    def __init__(self, d=4):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d + 1, 32), nn.SiLU(), nn.Linear(32, d))

    def forward(self, x, t):
        return self.net(torch.cat([x, t], 1))


torch.manual_seed(0)
model = Denoiser()
ema = EMA(model)
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
data = torch.randn(256, 4) * 0.3 + 1
for step in range(15):
    x0 = data[torch.randint(0, 256, (32,))]
    t = torch.rand(32, 1)
    noise = torch.randn_like(x0)
    xt = (1 - t) * x0 + t * noise
    loss = (model(xt, t) - (noise - x0)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(ema.module.parameters(), 1.0)  # <- clip-nothing
    opt.step()
    ema.update(model)
print("loss", loss.item())
