"""A bias in front of BatchNorm has a gradient of nearly nothing, which is as it should be."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(),
    nn.Linear(4 * 4 * 4, 3),
)  # fmt: skip
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
for _ in range(6):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(torch.randn(8, 1, 8, 8)), torch.randint(0, 3, (8,))).backward()
    optimizer.step()
