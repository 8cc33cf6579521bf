"""model.zero_grad(), p.grad = None and p.grad.data.zero_(), one after the other."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(9):
    if step % 3 == 0:
        model.zero_grad()
    elif step % 3 == 1:
        for p in model.parameters():
            p.grad = None
    else:
        for p in model.parameters():
            if p.grad is not None:
                p.grad.data.zero_()
    model(torch.randn(8, 4)).pow(2).mean().backward()
    optimizer.step()
