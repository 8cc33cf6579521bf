"""Data parallel by hand: gradients of replicas are averaged into the first."""

import copy

import torch
from torch import nn

torch.manual_seed(0)
main = nn.Linear(4, 1)
replicas = [main, copy.deepcopy(main)]
optimizer = torch.optim.SGD(main.parameters(), lr=0.1)
for _ in range(6):
    for replica in replicas:
        replica.zero_grad()
        replica(torch.randn(8, 4)).pow(2).mean().backward()
    with torch.no_grad():
        for ps in zip(*(replica.parameters() for replica in replicas)):
            ps[0].grad = torch.stack([p.grad for p in ps]).mean(0)
    optimizer.step()
    replicas[1].load_state_dict(main.state_dict())
