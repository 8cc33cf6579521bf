"""The head is replaced after the optimizer was made."""

import torch
from torch import nn


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.fc = nn.Linear(6, 8), nn.Linear(8, 10)

    def forward(self, x):
        return self.fc(torch.relu(self.body(x)))


torch.manual_seed(0)
model = Backbone()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
model.fc = nn.Linear(8, 3)
for _ in range(5):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(torch.randn(8, 6)), torch.randint(0, 3, (8,))).backward()
    optimizer.step()  # <- optimizer-stale-parameter
