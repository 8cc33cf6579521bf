"""Domain adaptation with a gradient reversal layer and two optimizers on one loss."""

import torch
from torch import nn


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -grad


torch.manual_seed(0)
features, labels, domains = nn.Linear(4, 6), nn.Linear(6, 2), nn.Linear(6, 2)
main = torch.optim.SGD([*features.parameters(), *labels.parameters()], lr=0.1)
adversary = torch.optim.SGD(domains.parameters(), lr=0.1)
for _ in range(6):
    h = torch.relu(features(torch.randn(8, 4)))
    y, d = torch.randint(0, 2, (8,)), torch.randint(0, 2, (8,))
    loss = nn.functional.cross_entropy(labels(h), y) + nn.functional.cross_entropy(
        domains(Reverse.apply(h)), d
    )
    main.zero_grad()
    adversary.zero_grad()
    loss.backward()
    main.step()
    adversary.step()
