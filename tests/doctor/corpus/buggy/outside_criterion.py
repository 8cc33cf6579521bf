"""Another mistake: outside criterion."""
# companions: outside-accumulation

import torch
from torch import nn


class LearnedTemperature(nn.Module):
    def __init__(self):
        super().__init__()
        self.temperature = nn.Parameter(torch.tensor(1.0))

    def forward(self, logits, y):
        return nn.functional.cross_entropy(logits / self.temperature, y)


torch.manual_seed(0)
model, criterion = nn.Linear(5, 3), LearnedTemperature()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)  # <- parameter-not-in-optimizer
for _ in range(5):
    optimizer.zero_grad()
    loss = criterion(model(torch.randn(6, 5)), torch.randint(0, 3, (6,)))
    loss.backward()
    optimizer.step()
