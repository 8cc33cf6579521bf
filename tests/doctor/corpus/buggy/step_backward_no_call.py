"""Another mistake: step backward no call."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(5, 1)
opt = torch.optim.RMSprop(net.parameters())
for _ in range(5):
    opt.zero_grad()
    loss = nn.functional.mse_loss(net(torch.randn(6, 5)), torch.zeros(6, 1))
    loss.backward
    opt.step()  # <- step-without-gradient
