"""Another mistake: outside late module."""
# companions: outside-accumulation

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)

    def add_head(self):
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        return self.head(torch.relu(self.body(x)))


torch.manual_seed(0)
net = Net()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)  # <- parameter-not-in-optimizer
net.add_head()
for _ in range(5):
    opt.zero_grad()
    nn.functional.cross_entropy(net(torch.randn(6, 4)), torch.randint(0, 2, (6,))).backward()
    opt.step()
