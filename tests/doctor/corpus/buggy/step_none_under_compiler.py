"""Gradients None under a compiler: the compiled step computes them functionally and never writes .grad."""

import torch
from torch import nn


def compute(model, x, y):
    loss = nn.functional.mse_loss(model(x), y)
    grads = torch.autograd.grad(loss, list(model.parameters()))
    return loss, grads


torch.manual_seed(0)
model = nn.Linear(4, 1)
compiled = torch.compile(model, backend="eager")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    loss, grads = compute(compiled, torch.randn(8, 4), torch.randn(8, 1))
    optimizer.step()  # <- step-without-gradient
