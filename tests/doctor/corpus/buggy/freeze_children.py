"""Another mistake: freeze children."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.head = nn.Linear(5, 5), nn.Linear(5, 5), nn.Linear(5, 2)

    def forward(self, x):
        return self.head(torch.relu(self.b(torch.relu(self.a(x)))))


torch.manual_seed(0)
model = Net()
for name, child in model.named_children():
    if name != "head":
        child.requires_grad = False  # <- freeze-ineffective
optimizer = torch.optim.Adam(filter(lambda p: p.requires_grad, model.parameters()), lr=1e-3)
for _ in range(4):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(torch.randn(6, 5)), torch.randint(0, 2, (6,))).backward()
    optimizer.step()
