"""Correct as well: detached history."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(5, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.05)
history, total = [], torch.zeros(())
for _ in range(14):
    out = model(torch.randn(6, 5))
    loss = out.pow(2).mean()
    history.append(out.detach().mean())
    total += loss.detach()
    opt.zero_grad()
    loss.backward()
    opt.step()
print(torch.stack(history).mean(), total)
