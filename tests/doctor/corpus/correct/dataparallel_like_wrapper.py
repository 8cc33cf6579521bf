"""Correct as well: dataparallel like wrapper."""

import torch
from torch import nn


class Wrapper(nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, *args):
        return self.module(*args)


class AcceleratedOptimizer:
    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.param_groups = optimizer.param_groups

    def zero_grad(self):
        self.optimizer.zero_grad()

    def step(self):
        self.optimizer.step()


torch.manual_seed(0)
model = nn.Linear(4, 1)
opt = AcceleratedOptimizer(torch.optim.AdamW(model.parameters(), lr=1e-3))
model = Wrapper(model)
for i in range(12):
    loss = model(torch.randn(8, 4)).pow(2).mean() / 3
    loss.backward()
    if (i + 1) % 3 == 0:
        opt.step()
        opt.zero_grad()
