"""Another mistake: outside perceptual."""

import torch
from torch import nn

torch.manual_seed(0)
vgg = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3))
vgg.eval()
net = nn.Conv2d(1, 1, 3, padding=1)
opt = torch.optim.Adam(net.parameters())
for _ in range(5):
    x, y = torch.randn(2, 1, 8, 8), torch.randn(2, 1, 8, 8)
    loss = nn.functional.mse_loss(vgg(net(x)), vgg(y))
    opt.zero_grad()
    loss.backward()  # <- outside-accumulation
    opt.step()
