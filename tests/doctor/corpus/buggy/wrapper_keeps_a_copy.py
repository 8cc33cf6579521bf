"""A wrapper copies the network that the optimizer holds, and trains the copy."""
# companions: step-without-gradient, parameter-not-in-optimizer, outside-accumulation

import copy

import torch
from torch import nn


class Parallel(nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = copy.deepcopy(module)  # <- optimizer-stale-parameter

    def forward(self, *args):
        return self.module(*args)


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
model = Parallel(net)
for _ in range(10):
    x = torch.randn(8, 4)
    optimizer.zero_grad()
    model(x).pow(2).mean().backward()
    optimizer.step()
