"""An image and a prompt are trained through a frozen network; the network's gradients are never wanted."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 2, 3, padding=1)).eval()
for p in net.parameters():
    p.requires_grad_(False)
image = torch.rand(1, 1, 8, 8, requires_grad=True)
optimizer = torch.optim.Adam([image], lr=0.05)
goal = net(torch.rand(1, 1, 8, 8)).detach()
for _ in range(12):
    optimizer.zero_grad()
    nn.functional.mse_loss(net(image), goal).backward()
    optimizer.step()
    with torch.no_grad():
        image.clamp_(0, 1)
