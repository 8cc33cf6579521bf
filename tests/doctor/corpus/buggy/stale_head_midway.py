"""Another mistake: stale head midway."""

import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.trunk = nn.Linear(5, 6)
        self.classifier = nn.Linear(6, classes)

    def forward(self, x):
        return self.classifier(torch.tanh(self.trunk(x)))


def loop(model, optimizer, classes):
    for _ in range(4):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(torch.randn(6, 5)), torch.randint(0, classes, (6,))).backward()
        optimizer.step()  # <- optimizer-stale-parameter


model = Net(4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loop(model, optimizer, 4)
model.classifier = nn.Linear(6, 9)
loop(model, optimizer, 9)
