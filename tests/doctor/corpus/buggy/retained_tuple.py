"""Another mistake: retained tuple."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
losses, preds = [], []
for i in range(10):
    out = net(torch.randn(6, 4))
    loss = out.pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    losses.append((i, loss))  # <- graph-retained
