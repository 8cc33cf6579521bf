"""Correct as well: meta loss scaled lr."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(5, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
sched = torch.optim.lr_scheduler.SequentialLR(
    opt,
    [
        torch.optim.lr_scheduler.LinearLR(opt, 0.1, total_iters=3),
        torch.optim.lr_scheduler.CosineAnnealingLR(opt, 5),
    ],
    [3],
)
for _ in range(8):
    opt.zero_grad()
    model(torch.randn(6, 5)).pow(2).mean().backward()
    opt.step()
    sched.step()
