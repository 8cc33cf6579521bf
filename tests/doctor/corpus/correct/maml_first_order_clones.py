"""First-order MAML: a deep copy per task is trained, its gradient handed to the model by hand."""

import copy

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(2, 1)
outer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    outer.zero_grad()
    for _ in range(2):
        learner = copy.deepcopy(model)
        inner = torch.optim.SGD(learner.parameters(), lr=0.05)
        for _ in range(2):
            inner.zero_grad()
            learner(torch.randn(6, 2)).pow(2).mean().backward()
            inner.step()
        learner.zero_grad()
        learner(torch.randn(6, 2)).pow(2).mean().backward()
        for p, q in zip(model.parameters(), learner.parameters()):
            p.grad = q.grad.clone() if p.grad is None else p.grad + q.grad
    outer.step()
