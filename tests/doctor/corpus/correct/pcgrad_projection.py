"""PCGrad: gradients of two tasks are projected and written into .grad."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 2)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(6):
    x = torch.randn(8, 4)
    out = model(x)
    grads = []
    for task in range(2):
        optimizer.zero_grad()
        (out[:, task] - task).pow(2).mean().backward(retain_graph=task == 0)
        grads.append([p.grad.clone() for p in model.parameters()])
    for p, a, b in zip(model.parameters(), *grads):
        dot = (a * b).sum()
        p.grad = a + b if dot >= 0 else a + b - dot * b / b.pow(2).sum() - dot * a / a.pow(2).sum()
    optimizer.step()
