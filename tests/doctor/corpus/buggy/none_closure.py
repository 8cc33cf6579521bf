"""Another mistake: none closure."""
# fails

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
net[0].requires_grad_(False)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    opt.zero_grad()
    net(torch.randn(6, 4)).pow(2).mean().backward()
    for p in net.parameters():
        p.grad.data.clamp_(-1, 1)  # <- none-gradient
    opt.step()
