"""Descent by hand, as in a first lesson, and nobody clears the gradients."""

import torch

torch.manual_seed(0)
x = torch.randn(64, 3)
y = x @ torch.tensor([1.0, -2.0, 0.5]) + 0.1
w = torch.zeros(3, requires_grad=True)
b = torch.zeros((), requires_grad=True)
for _ in range(10):
    loss = ((x @ w + b - y) ** 2).mean()
    loss.backward()
    with torch.no_grad():
        for p in (w, b):
            p -= 0.05 * p.grad  # <- gradient-reused
