"""Another mistake: broken tensor."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(5, 3), nn.Linear(3, 1)

    def forward(self, x):
        rows = [self.a(row) for row in x]
        h = torch.tensor([row.tolist() for row in rows])  # <- graph-broken
        return self.b(h)


torch.manual_seed(0)
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(5):
    opt.zero_grad()
    net(torch.randn(4, 5)).pow(2).mean().backward()
    opt.step()
