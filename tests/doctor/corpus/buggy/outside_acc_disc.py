"""Another mistake: outside acc disc."""

import torch
from torch import nn


class Perceptual(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).eval()

    def forward(self, a, b):
        return (self.net(a) - self.net(b)).abs().mean()


torch.manual_seed(0)
model, criterion = nn.Linear(3, 4), Perceptual().eval()
opt = torch.optim.Adam(model.parameters())
for _ in range(5):
    opt.zero_grad()
    loss = criterion(model(torch.randn(6, 3)), torch.randn(6, 4))
    loss.backward()  # <- outside-accumulation
    opt.step()
