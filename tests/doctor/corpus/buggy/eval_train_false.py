"""Another mistake: eval train false."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(
    nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2)
)
net.train(False)  # <- eval-mode-training
opt = torch.optim.Adam(net.parameters())
for _ in range(4):
    opt.zero_grad()
    nn.functional.cross_entropy(net(torch.randn(4, 1, 6, 6)), torch.randint(0, 2, (4,))).backward()
    opt.step()
