"""forward uses the weight's .data."""

import torch
from torch import nn


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))
        self.out = nn.Linear(4, 2)

    def forward(self, x):
        return self.out(x * self.scale.data)  # <- graph-broken


torch.manual_seed(0)
model = Tied()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(5):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(torch.randn(8, 4)), torch.randint(0, 2, (8,))).backward()
    optimizer.step()
