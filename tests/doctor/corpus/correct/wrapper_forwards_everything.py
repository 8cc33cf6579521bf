"""A wrapper that forwards calls, names and optimizer steps to what it holds."""

import torch
from torch import nn


class Wrapped(nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, *args):
        return self.module(*args)


class Stepper:
    def __init__(self, optimizer):
        self.inner = optimizer

    def zero_grad(self):
        self.inner.zero_grad()

    def step(self):
        nn.utils.clip_grad_norm_([p for group in self.inner.param_groups for p in group["params"]], 1.0)
        self.inner.step()


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
stepper = Stepper(torch.optim.SGD(net.parameters(), lr=0.01))
model = Wrapped(Wrapped(net))
for i in range(12):
    stepper.zero_grad()
    model(torch.randn(8, 4)).pow(2).mean().backward()
    stepper.step()
    if i % 4 == 0:
        model.load_state_dict({k: v.clone() for k, v in model.state_dict().items()})
