"""A layer that forward() never calls."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.second = nn.Linear(8, 8)
        self.out = nn.Linear(8, 1)

    def forward(self, x):
        x = torch.relu(self.first(x))
        return self.out(x)


torch.manual_seed(0)
model = Net()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(6):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).pow(2).mean().backward()
    optimizer.step()  # <- parameter-without-gradient
