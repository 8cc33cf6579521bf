"""MAML: fast weights by autograd.grad with create_graph, one outer backward."""

import torch
from torch import nn
from torch.func import functional_call

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
outer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(4):
    outer.zero_grad()
    total = 0.0
    for _ in range(3):
        x, y = torch.randn(6, 2), torch.randn(6, 1)
        names, values = zip(*model.named_parameters())
        loss = nn.functional.mse_loss(functional_call(model, dict(zip(names, values)), (x,)), y)
        grads = torch.autograd.grad(loss, values, create_graph=True)
        fast = {name: value - 0.1 * grad for name, value, grad in zip(names, values, grads)}
        total = total + nn.functional.mse_loss(functional_call(model, fast, (x,)), y)
    (total / 3).backward()
    outer.step()
