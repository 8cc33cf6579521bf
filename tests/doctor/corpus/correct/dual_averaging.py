"""Dual averaging is defined on the running sum of all gradients, so .grad is never cleared and each weight is
recomputed from its start value.
"""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(5, 1)
start = [p.detach().clone() for p in model.parameters()]
x = torch.randn(64, 5)
y = x @ torch.tensor([[1.0], [-2.0], [0.5], [0.0], [3.0]]) + 0.3
first = None
for t in range(1, 61):
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()  # .grad holds the sum of all gradients so far
    scale = 0.5 / t**0.5
    with torch.no_grad():
        for p, p0 in zip(model.parameters(), start):
            p.copy_(p0 - scale * p.grad)
    first = first or loss.item()
print(first, loss.item())
assert loss.item() < 0.5 * first
