"""Correct as well: new head first."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.fc = nn.Linear(5, 6), nn.Linear(6, 10)

    def forward(self, x):
        return self.fc(torch.relu(self.body(x)))


torch.manual_seed(0)
model = Net()
for p in model.parameters():
    p.requires_grad = False
model.fc = nn.Linear(model.fc.in_features, 3)
opt = torch.optim.SGD(model.fc.parameters(), lr=0.1)
for _ in range(5):
    opt.zero_grad()
    nn.functional.cross_entropy(model(torch.randn(6, 5)), torch.randint(0, 3, (6,))).backward()
    opt.step()
