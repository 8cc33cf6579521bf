"""Another mistake: without alpha."""

import torch
from torch import nn


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.alpha = nn.Parameter(torch.zeros(1))
        self.fc1 = nn.Linear(5, 5)
        self.fc2 = nn.Linear(5, 5)

    def forward(self, x):
        x = torch.relu(self.fc1(x))
        return self.fc1(x)


def train(model, opt, n):
    for _ in range(n):
        opt.zero_grad()
        loss = model(torch.randn(6, 5)).pow(2).mean()
        loss.backward()
        opt.step()  # <- parameter-without-gradient


torch.manual_seed(0)
m = Gate()
train(m, torch.optim.Adam(m.parameters()), 5)
