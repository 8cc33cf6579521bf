"""The image is optimized through a frozen network."""

import torch
from torch import nn

torch.manual_seed(0)
features = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Conv2d(3, 3, 3)).eval().requires_grad_(False)
goal = features(torch.randn(1, 1, 8, 8))
image = torch.randn(1, 1, 8, 8, requires_grad=True)
optimizer = torch.optim.LBFGS([image], max_iter=4)


def closure():
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(features(image), goal)
    loss.backward()
    return loss


for _ in range(4):
    optimizer.step(closure)
