"""`requires_grad = False` on a module does nothing."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features, self.classifier = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, x):
        return self.classifier(torch.relu(self.features(x)))


torch.manual_seed(0)
model = Net()
model.features.requires_grad = False  # <- freeze-ineffective
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(torch.randn(8, 4)), torch.randint(0, 2, (8,))).backward()
    optimizer.step()
