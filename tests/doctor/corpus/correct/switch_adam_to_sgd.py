"""Adam for the first phase, then a new SGD over the same parameters; the old optimizer is simply no longer
stepped.
"""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
for epoch in range(4):
    if epoch == 2:
        optimizer = torch.optim.SGD(net.parameters(), lr=1e-2, momentum=0.9)
    for _ in range(6):
        x = torch.randn(16, 6)
        loss = nn.functional.mse_loss(net(x), x.max(1, keepdim=True).values)
        net.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, type(optimizer).__name__, loss.item())
