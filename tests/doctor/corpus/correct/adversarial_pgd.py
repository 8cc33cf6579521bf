"""PGD adversarial training: attacks in eval mode fill gradients that are cleared before the training pass."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)


def attack(x, y):
    model.eval()
    delta = torch.zeros_like(x, requires_grad=True)
    for _ in range(3):
        nn.functional.cross_entropy(model(x + delta), y).backward()
        with torch.no_grad():
            delta += 0.1 * delta.grad.sign()
            delta.clamp_(-0.3, 0.3)
        delta.grad.zero_()
    model.train()
    return (x + delta).detach()


for _ in range(5):
    x, y = torch.randn(8, 4), torch.randint(0, 2, (8,))
    adversarial = attack(x, y)
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(adversarial), y).backward()
    optimizer.step()
