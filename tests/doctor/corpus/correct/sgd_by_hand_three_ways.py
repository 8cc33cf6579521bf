"""Weights moved by hand; gradients cleared by None, by zero_() and by a new tensor of zeros."""

import torch

torch.manual_seed(0)
x = torch.randn(20, 3)
y = x @ torch.tensor([1.0, -2.0, 0.5])
for way in range(3):
    w = torch.zeros(3, requires_grad=True)
    for _ in range(12):
        loss = ((x @ w - y) ** 2).mean()
        loss.backward()
        with torch.no_grad():
            w -= 0.05 * w.grad
            if way == 0:
                w.grad = None
            elif way == 1:
                w.grad.zero_()
            else:
                w.grad = torch.zeros_like(w)
