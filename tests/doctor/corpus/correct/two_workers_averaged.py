"""Two replicas compute, their gradients are averaged by hand into the first, which steps; weights are copied
back.
"""

import copy

import torch
from torch import nn

torch.manual_seed(0)
main = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
other = copy.deepcopy(main)
optimizer = torch.optim.SGD(main.parameters(), lr=0.05)
for _ in range(12):
    main.zero_grad()
    other.zero_grad()
    for worker in (main, other):
        worker(torch.randn(8, 4)).pow(2).mean().backward()
    for p, q in zip(main.parameters(), other.parameters()):
        p.grad.add_(q.grad).div_(2)
    optimizer.step()
    other.load_state_dict(main.state_dict())
